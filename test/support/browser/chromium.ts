// A real Chromium: Debian's, or the one of MILLRACE_CHROMIUM.

import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import puppeteer, { type Browser, type Page } from "puppeteer-core";
import { mediaFeatures, type PageOptions, viewport } from "./look.ts";

const program = process.env.MILLRACE_CHROMIUM ?? "/usr/bin/chromium";

export interface OpenedPage extends AsyncDisposable {
  readonly page: Page;
  /** What the browser had to say: errors, requests that failed, violations of the policy, requests to elsewhere. */
  readonly complaints: string[];
}

export class Chromium implements AsyncDisposable {
  private constructor(
    readonly browser: Browser,
    private readonly directory: string,
  ) {}

  static async launch(): Promise<Chromium> {
    if (!existsSync(program)) {
      throw new Error(`There is no ${program}: apt-get install chromium, or set MILLRACE_CHROMIUM.`);
    }
    const directory = await mkdtemp(join(tmpdir(), "millrace-chromium-"));
    const browser = await puppeteer.launch({
      executablePath: program,
      userDataDir: directory,
      // No other machine has a name for it. Without a sandbox it runs as root, too.
      args: ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
    });
    return new Chromium(browser, directory);
  }

  /** A page in a browser context of its own: nobody is signed in. `origin`: the only one that may be asked. */
  async open(origin: string, path: string, options: PageOptions = {}): Promise<OpenedPage> {
    const context = await this.browser.createBrowserContext();
    const page = await context.newPage();
    await page.emulateMediaFeatures(mediaFeatures(options));
    await page.setViewport(viewport(options));
    const complaints = complaintsOf(page, origin);
    await page.goto(origin + path);
    return { page, complaints, [Symbol.asyncDispose]: () => context.close() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.browser.close();
    await rm(this.directory, { recursive: true, force: true });
  }
}

function complaintsOf(page: Page, origin: string): string[] {
  const complaints: string[] = [];
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith("data:")) complaints.push(`asked ${url}`);
  });
  page.on("requestfailed", (request) => {
    // A page that is left ends its stream of events, and what it was about to load.
    if (request.failure()?.errorText !== "net::ERR_ABORTED") complaints.push(`failed ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 500) complaints.push(`${response.status()} ${response.url()}`);
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  return complaints;
}
