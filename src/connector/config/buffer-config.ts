// The buffer between source and sink: null or empty, for there is none. An object store is known by name and not built,
// so its settings are checked, and then refused.

import { type Static, Type } from "@sinclair/typebox";
import { nullable, secretText, strictObject, wholeNumber } from "../request/schema-forms.ts";

const text = (maxLength: number, description: string) =>
  Type.String({ minLength: 1, maxLength, description });
const atOnce = (what: string) =>
  wholeNumber({ maximum: 1000, description: `${what} at once; 0: built-in default.` });

const ObjectStoreRequestSchema = strictObject({
  url: text(2048, "Address of the bucket, and a path in it."),
  options: Type.Optional(
    Type.Array(
      strictObject({
        key: text(255, "Name of the option."),
        value: secretText("Value of the option."),
      }),
      { maxItems: 100, description: "Options of the store's client." },
    ),
  ),
  allow_http: Type.Optional(Type.Boolean({ description: "Allow connections without TLS." })),
  allow_invalid_certificates: Type.Optional(
    Type.Boolean({ description: "Do not check the store's certificate." }),
  ),
  root_certificate_pem: Type.Optional(
    secretText("Certificates that the store's must be signed by, PEM text."),
  ),
  max_concurrent_parts: Type.Optional(atOnce("Parts of an object")),
  max_concurrent_requests: Type.Optional(atOnce("Requests")),
});

export const BufferRequestSchema = nullable(
  strictObject(
    { object_store: Type.Optional(ObjectStoreRequestSchema) },
    { description: "Null or empty: nothing is buffered between source and sink." },
  ),
);
export type BufferRequest = Static<typeof BufferRequestSchema>;
