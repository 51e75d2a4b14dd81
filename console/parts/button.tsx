import type { ComponentChildren, JSX } from "preact";

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "class" | "children" | "ref"> & {
  readonly kind?: "primary" | "danger" | "plain" | "normal";
  readonly size?: "normal" | "small";
  /** What it began is under way. It does nothing then, but keeps the focus, which a disabled button loses. */
  readonly isBusy?: boolean;
  readonly children?: ComponentChildren;
};

export function Button({
  kind = "normal",
  size = "normal",
  isBusy = false,
  onClick,
  children,
  ...rest
}: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      {...(isBusy ? { "aria-disabled": true } : { onClick })}
      class={`button ${kind} ${size}`}
    >
      {children}
    </button>
  );
}
