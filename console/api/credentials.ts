// Who is signed in: the value of the Authorization header. It lives as long as the browser's tab.

const key = "millrace.authorization";

export function basicCredentials(username: string, password: string): string {
  const bytes = new TextEncoder().encode(`${username}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...bytes))}`;
}

export function bearerCredentials(token: string): string {
  return `Bearer ${token}`;
}

/** Null: nobody has signed in, which is fine where the service asks for nothing. */
export function storedCredentials(): string | null {
  return sessionStorage.getItem(key);
}

export function storeCredentials(authorization: string | null): void {
  if (authorization === null) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, authorization);
}
