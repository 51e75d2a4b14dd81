// How a page is seen, as the browser is told.

export interface PageOptions {
  readonly theme?: "light" | "dark";
  readonly width?: number;
  readonly height?: number;
  /** 2: as at 200 % zoom of the same window. */
  readonly zoom?: number;
}

export function mediaFeatures({ theme = "light" }: PageOptions) {
  return [
    { name: "prefers-color-scheme", value: theme },
    { name: "prefers-reduced-motion", value: "reduce" },
  ];
}

export function viewport({ width = 1280, height = 900, zoom = 1 }: PageOptions) {
  return {
    width: Math.round(width / zoom),
    height: Math.round(height / zoom),
    deviceScaleFactor: zoom,
  };
}
