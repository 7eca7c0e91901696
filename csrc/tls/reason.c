/* OpenSSL's texts use its own words; users need the cause and the setting to
 * change. Text of the peer is cut and made printable. */
#include "tls/reason.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tls/file.h"

static void add(char *to, size_t room, const char *p, size_t n) {
  size_t at = strlen(to);
  if (at > 0 && at + 2 < room)
    at += (size_t)snprintf(to + at, room - at, ", ");
  for (size_t i = 0; i < n && at + 1 < room; i++)
    to[at++] = p[i] > ' ' && p[i] < 127 ? p[i] : '?';
  to[at] = '\0';
}

static void names_of(X509 *x, char *to, size_t room) {
  GENERAL_NAMES *all = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
  to[0] = '\0';
  for (int i = 0; all && i < sk_GENERAL_NAME_num(all); i++) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
    bool dns = name->type == GEN_DNS;
    if (!dns && name->type != GEN_IPADD)
      continue;
    const ASN1_STRING *s = dns ? name->d.dNSName : name->d.iPAddress;
    const unsigned char *b = ASN1_STRING_get0_data(s);
    int n = ASN1_STRING_length(s);
    char text[INET6_ADDRSTRLEN];
    if (dns)
      add(to, room, (const char *)b, (size_t)n);
    else if ((n == 4 || n == 16) &&
             inet_ntop(n == 4 ? AF_INET : AF_INET6, b, text, sizeof text))
      add(to, room, text, strlen(text));
  }
  GENERAL_NAMES_free(all);
}

static void date_of(const ASN1_TIME *when, char *to, size_t room) {
  struct tm tm;
  to[0] = '\0';
  if (ASN1_TIME_to_tm(when, &tm) == 1)
    (void)strftime(to, room, "%Y-%m-%d %H:%M UTC", &tm);
}

void dlk_tls_reason_verify(struct dlk_tls_seen *seen, X509_STORE_CTX *at) {
  X509 *x = X509_STORE_CTX_get_current_cert(at);
  seen->verify_error = X509_STORE_CTX_get_error(at);
  seen->named[0] = '\0';
  if (!x)
    return;
  switch (seen->verify_error) {
  case X509_V_ERR_HOSTNAME_MISMATCH:
  case X509_V_ERR_IP_ADDRESS_MISMATCH:
    names_of(x, seen->named, sizeof seen->named);
    break;
  case X509_V_ERR_CERT_HAS_EXPIRED:
    date_of(X509_get0_notAfter(x), seen->named, sizeof seen->named);
    break;
  case X509_V_ERR_CERT_NOT_YET_VALID:
    date_of(X509_get0_notBefore(x), seen->named, sizeof seen->named);
    break;
  default:
    break;
  }
}

static void unverified(const struct dlk_tls_seen *seen,
                       struct dlk_tls_fault *fault) {
  switch (seen->verify_error) {
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    dlk_tls_fault_set(fault, DLK_DENIED,
                      "the server's certificate is signed by itself; give it "
                      "as tls.cafile (dlock: --ca) if it is the "
                      "right one");
    break;
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    dlk_tls_fault_set(fault, DLK_DENIED,
                      "the server's certificate comes from a CA that is not "
                      "trusted here (%s); give that CA as "
                      "tls.cafile (dlock: --ca)",
                      X509_verify_cert_error_string(seen->verify_error));
    break;
  case X509_V_ERR_HOSTNAME_MISMATCH:
  case X509_V_ERR_IP_ADDRESS_MISMATCH:
    if (!seen->named[0]) {
      bool address = seen->verify_error == X509_V_ERR_IP_ADDRESS_MISMATCH;
      dlk_tls_fault_set(fault, DLK_DENIED,
                        "the server's certificate is not for %.60s but for "
                        "nobody: it has no subjectAltName, and its CN does not "
                        "count; make it anew with subjectAltName=%s:%.60s",
                        seen->name, address ? "IP" : "DNS", seen->name);
      break;
    }
    dlk_tls_fault_set(fault, DLK_DENIED,
                      "the server's certificate is not for %.60s but for %s; "
                      "use a name of it in the URL or as tls.server_name",
                      seen->name, seen->named);
    break;
  case X509_V_ERR_CERT_HAS_EXPIRED:
    dlk_tls_fault_set(fault, DLK_DENIED,
                      "a certificate of the server expired (%s); renew it, or "
                      "check this machine's clock",
                      seen->named);
    break;
  case X509_V_ERR_CERT_NOT_YET_VALID:
    dlk_tls_fault_set(fault, DLK_DENIED,
                      "a certificate of the server is not valid yet (from %s "
                      "on); check this machine's clock",
                      seen->named);
    break;
  default:
    dlk_tls_fault_set(fault, DLK_DENIED,
                      "the server's certificate cannot be accepted (%s)",
                      X509_verify_cert_error_string(seen->verify_error));
    break;
  }
}

#define WANTS                                                                  \
  "the server wants a client certificate (tls-auth-clients); give tls.cert "   \
  "and tls.key"
#define REFUSED "the server does not accept the certificate in tls.cert: "
#define SUITES                                                                 \
  "the server has no cipher or key exchange in common with us; see "           \
  "tls.ciphers and tls.ciphersuites"
#define VERSIONS                                                               \
  "the server has no TLS version in common with us (1.2 or newer; see "        \
  "tls.min_version)"

static const struct {
  int reason; /* SSL_R_… */
  enum dlk_code code;
  const char *text;
} known[] = {
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, DLK_DENIED, WANTS},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, DLK_DENIED,
     REFUSED "its CA is not the server's (tls-ca-cert-file)"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, DLK_DENIED,
     REFUSED "it is broken, or its CA is not the server's"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, DLK_DENIED,
     REFUSED "it is not made for clients"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, DLK_DENIED, REFUSED "it expired"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, DLK_DENIED,
     REFUSED "it was revoked"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, DLK_DENIED,
     REFUSED "it could not be checked"},
    {SSL_R_TLSV1_ALERT_ACCESS_DENIED, DLK_DENIED, REFUSED "access denied"},
    {SSL_R_TLSV1_UNRECOGNIZED_NAME, DLK_DENIED,
     "the server does not know the name that it was asked for; see "
     "tls.server_name"},
    {SSL_R_TLSV1_ALERT_INSUFFICIENT_SECURITY, DLK_DENIED, SUITES},
    {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, DLK_DENIED, SUITES},
    {SSL_R_NO_CIPHERS_AVAILABLE, DLK_INVALID,
     "tls.ciphers and tls.ciphersuites leave no cipher for tls.min_version"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, DLK_DENIED, VERSIONS},
    {SSL_R_UNSUPPORTED_PROTOCOL, DLK_DENIED, VERSIONS},
    {SSL_R_WRONG_VERSION_NUMBER, DLK_INVALID, DLK_TLS_NOT_SPOKEN},
    {SSL_R_PACKET_LENGTH_TOO_LONG, DLK_INVALID, DLK_TLS_NOT_SPOKEN},
    {SSL_R_HTTP_REQUEST, DLK_INVALID, DLK_TLS_NOT_SPOKEN},
};

/* For rare errors and attacks. */
static void raw(unsigned long e, bool greeted, struct dlk_tls_fault *fault) {
  const char *text = ERR_reason_error_string(e);
  dlk_tls_fault_set(fault, DLK_UNAVAILABLE, "%s (%s)",
                    greeted ? "the TLS connection broke"
                            : "the TLS handshake failed",
                    text ? text : "no reason is known");
}

void dlk_tls_reason(const struct dlk_tls_seen *seen, bool greeted,
                    struct dlk_tls_fault *fault) {
  unsigned long e = ERR_peek_error();
  int reason = ERR_GET_LIB(e) == ERR_LIB_SSL ? ERR_GET_REASON(e) : 0;
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    unverified(seen, fault);
    return;
  }
  /* TLS 1.2 has no alert for a missing certificate, and Go sends this one. */
  bool unsaid = reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE ||
                reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE;
  if (unsaid && seen->asked && !seen->shown)
    reason = SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED;
  for (size_t i = 0; reason && i < sizeof known / sizeof known[0]; i++)
    if (known[i].reason == reason) {
      dlk_tls_fault_set(fault, known[i].code, "%s", known[i].text);
      return;
    }
  raw(e, greeted, fault);
}

void dlk_tls_reason_gone(const struct dlk_tls_seen *seen, bool greeted,
                         struct dlk_tls_fault *fault) {
  dlk_tls_fault_set(fault, DLK_UNAVAILABLE, "%s%s",
                    greeted ? "the server closed the connection"
                            : "the server closed the connection during the "
                              "TLS handshake",
                    seen->asked && !seen->shown
                        ? "; it asks for a client certificate, see tls.cert"
                        : "");
}
