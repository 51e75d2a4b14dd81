// Who is signed in: the value of the Authorization header. It lives as long as the browser's tab.

const key = "millrace.authorization";

export function basicCredentials(username: string, password: string): string {
  const bytes = new TextEncoder().encode(`${username}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

/** Null: no header can have it, so it is no token of any service. */
export function bearerCredentials(token: string): string | null {
  return /^[\x21-\x7e]+$/.test(token.trim()) ? `Bearer ${token.trim()}` : null;
}

/** Null: nobody has signed in, which is fine where the service asks for nothing. */
export function storedCredentials(): string | null {
  return sessionStorage.getItem(key);
}

export function storeCredentials(authorization: string | null): void {
  if (authorization === null) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, authorization);
}
