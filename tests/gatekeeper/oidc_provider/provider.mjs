// A real third-party OAuth issuer for the gatekeeper's tests: oidc-provider with client_credentials,
// tls_client_auth by a SPIFFE id, private_key_jwt, and access tokens bound to certificates.
//
// Its settings come as JSON in the file that the first argument names; when it listens, it prints
// one line of JSON with its issuer URL. It ends when its standard input does, so that it can't
// outlive the tests.

import { readFileSync } from "node:fs";
import { createServer } from "node:https";

// Node 20 has no URL.parse, which the library uses.
URL.parse ??= (url, base) => {
  try {
    return new URL(url, base);
  } catch {
    return null;
  }
};

const { Provider } = await import("oidc-provider");

const settings = JSON.parse(readFileSync(process.argv[2], "utf8"));
const server = createServer({
  cert: settings.certificate,
  key: settings.key,
  ca: settings.client_ca,
  requestCert: true,
  rejectUnauthorized: false, // discovery and keys are for everybody; the library checks clients
  minVersion: "TLSv1.2",
});

function peer(ctx) {
  return ctx.socket.getPeerX509Certificate();
}

function carriesUri(certificate, expected) {
  const names = (certificate.subjectAltName ?? "").split(", ");
  return names.includes(`URI:${expected}`);
}

function configuration() {
  return {
    clients: settings.clients,
    jwks: settings.jwks,
    scopes: settings.scopes,
    clientDefaults: { id_token_signed_response_alg: "ES256" },
    clientAuthMethods: ["tls_client_auth", "private_key_jwt"],
    enabledJWA: { clientAuthSigningAlgValues: ["ES256"] },
    ttl: { ClientCredentials: settings.ttl_s },
    extraTokenClaims: () => settings.claims,
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => settings.audience,
        getResourceServerInfo: (_ctx, resource) => ({
          audience: resource,
          scope: settings.scopes.join(" "),
          accessTokenTTL: settings.ttl_s,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: "ES256" } },
        }),
      },
      mTLS: {
        enabled: true,
        certificateBoundAccessTokens: true,
        tlsClientAuth: true,
        getCertificate: (ctx) => peer(ctx),
        certificateAuthorized: (ctx) => ctx.socket.authorized,
        certificateSubjectMatches: (ctx, property, expected) =>
          property === "tls_client_auth_san_uri" && carriesUri(peer(ctx), expected),
      },
    },
  };
}

process.stdin.resume();
process.stdin.on("end", () => process.exit(0));

server.listen(0, "127.0.0.1", () => {
  const issuer = `https://localhost:${server.address().port}`;
  const provider = new Provider(issuer, configuration());
  provider.on("server_error", (_ctx, error) => console.error(error));
  server.on("request", provider.callback());
  console.log(JSON.stringify({ issuer }));
});
