// The kills of a service that sends webhooks, as many as are promised.

process.env.MILLRACE_WEBHOOK_KILLS ??= "50";
await import("../../e2e/kill-webhook.test.ts");

export {};
