import type { ComponentChildren, JSX } from "preact";

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "class" | "children" | "ref"> & {
  readonly kind?: "primary" | "danger" | "plain" | "normal";
  readonly size?: "normal" | "small";
  readonly children?: ComponentChildren;
};

export function Button({ kind = "normal", size = "normal", children, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest} class={`button ${kind} ${size}`}>
      {children}
    </button>
  );
}
