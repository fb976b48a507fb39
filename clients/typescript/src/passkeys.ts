import type { Schemas } from "./wire.js";

/** Whether this browser can create and use passkeys on this page. */
export function supportsPasskeys(): boolean {
  return (
    typeof PublicKeyCredential === "function" &&
    typeof PublicKeyCredential.parseCreationOptionsFromJSON === "function" &&
    typeof PublicKeyCredential.parseRequestOptionsFromJSON === "function"
  );
}

/** Asks the user to create a passkey. Rejects with a `DOMException` if they decline. */
export async function createPasskey(
  options: Schemas["PasskeyCreationOptions"],
): Promise<Schemas["PasskeyRegistration"]> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options as PublicKeyCredentialCreationOptionsJSON);
  const credential = await navigator.credentials.create({ publicKey });
  return inJson(credential) as Schemas["PasskeyRegistration"];
}

/** Asks the user to choose a passkey and to confirm its use. Rejects with a `DOMException` if they decline. */
export async function usePasskey(
  options: Schemas["PasskeyRequestOptions"],
): Promise<Schemas["PasskeyAuthentication"]> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options as PublicKeyCredentialRequestOptionsJSON);
  const credential = await navigator.credentials.get({ publicKey });
  return inJson(credential) as Schemas["PasskeyAuthentication"];
}

function inJson(credential: Credential | null): unknown {
  if (!(credential instanceof PublicKeyCredential)) throw new TypeError("the browser returned no passkey");
  return credential.toJSON();
}
