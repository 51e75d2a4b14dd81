import type { Api } from "../../api/client.ts";
import { Scrolled } from "../../parts/scrolled.tsx";

type Service = NonNullable<Awaited<ReturnType<Api["service"]["get"]>>["data"]>;

const sources = { Flag: "flag", Environment: "environment", Default: "default" } as const;

/** The settings that are in force. A secret shows only that it is set. */
export function SettingTable({ settings }: Pick<Service, "settings">) {
  return (
    <div class="stack tight">
      <h2 id="settings">Settings</h2>
      <p class="soft small">
        They are read at the start. <code>millrace serve --help</code> explains each.
      </p>
      <Scrolled labelledBy="settings">
        <table>
          <thead>
            <tr>
              <th scope="col">Setting</th>
              <th scope="col">Value</th>
              <th scope="col">From</th>
            </tr>
          </thead>
          <tbody>
            {settings.map(({ name, value, source }) => (
              <tr key={name}>
                <th scope="row">
                  <code>{name}</code>
                </th>
                <td class="name">
                  {value === null ? <span class="soft">not set</span> : <code>{value}</code>}
                </td>
                <td class={source === "Default" ? "soft" : ""}>{sources[source]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolled>
    </div>
  );
}
