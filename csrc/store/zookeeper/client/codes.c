/* Codes of servers and the library. Numbers, because a server may know more
 * than the library's header, whose zerror() then says "unknown error".
 *
 * ZRUNTIMEINCONSISTENCY: an answer was not to the oldest request; the library
 * hangs up and gives this to all under way. */
#include "store/zookeeper/client/codes.h"

#include <stdio.h>

#define TEXT_OF(n) TEXT(n)
#define TEXT(n) #n

static const struct {
  int code;
  enum dlk_ss_rc rc;
  const char *text;
} codes[] = {
#define X(number, means, name, says)                                           \
  {number, DLK_SS_##means, says " (" #name " " #number ")"},
    /* clang-format off */
    X(-1,   MEMORY,  ZSYSTEMERROR, "out of memory, or an error of the system")
    X(-2,   CUT,     ZRUNTIMEINCONSISTENCY, "answers were out of order")
    X(-3,   FAILED,  ZDATAINCONSISTENCY, "inconsistent data")
    X(-4,   CUT,     ZCONNECTIONLOSS, "the connection was lost")
    X(-5,   FAILED,  ZMARSHALLINGERROR, "a broken message")
    X(-6,   UNKNOWN, ZUNIMPLEMENTED, "the server does not know this request")
    X(-7,   CUT,     ZOPERATIONTIMEOUT, "no answer in time")
    X(-8,   FAILED,  ZBADARGUMENTS, "invalid arguments")
    X(-9,   CUT,     ZINVALIDSTATE, "the session is not open")
    X(-12,  CUT,     ZUNKNOWNSESSION, "the server does not know the session")
    X(-13,  FAILED,  ZNEWCONFIGNOQUORUM, "no quorum of the new configuration")
    X(-14,  FAILED,  ZRECONFIGINPROGRESS, "the ensemble is being reconfigured")
    X(-15,  FAILED,  ZSSLCONNECTIONERROR, "TLS failed")
    X(-101, NONODE,  ZNONODE, "no such node")
    X(-102, NOAUTH,  ZNOAUTH, "no right to do that")
    X(-103, VERSION, ZBADVERSION, "the node has another version")
    X(-108, FAILED,  ZNOCHILDRENFOREPHEMERALS, "ephemeral: no children")
    X(-110, EXISTS,  ZNODEEXISTS, "the node exists")
    X(-111, FAILED,  ZNOTEMPTY, "the node has children")
    X(-112, CUT,     ZSESSIONEXPIRED, "the session has expired")
    X(-113, FAILED,  ZINVALIDCALLBACK, "invalid callback")
    X(-114, FAILED,  ZINVALIDACL, "invalid ACL")
    X(-115, NOAUTH,  ZAUTHFAILED, "authentication failed")
    X(-116, CUT,     ZCLOSING, "the session is being closed")
    X(-117, FAILED,  ZNOTHING, "no answer to process")
    X(-118, CUT,     ZSESSIONMOVED, "the session moved to another server")
    X(-119, FAILED,  ZNOTREADONLY, "the server is read-only now")
    X(-120, FAILED,  ZEPHEMERALONLOCALSESSION, "a local session")
    X(-121, FAILED,  ZNOWATCHER, "no such watch")
    X(-122, CUT,     ZREQUESTTIMEOUT, "the server gave the request up")
    X(-123, FAILED,  ZRECONFIGDISABLED, "reconfiguration is disabled")
    X(-124, NOAUTH,  ZSESSIONCLOSEDREQUIRESASLAUTH, "wants SASL")
    X(-125, FAILED,  ZQUOTAEXCEEDED, "a quota is exceeded")
    X(-127, THROTTLED,ZTHROTTLEDOP, "the server throttles requests")
    /* clang-format on */
    {DLK_ZK_TOO_LONG, DLK_SS_FAILED,
     "with its path it is longer than " TEXT_OF(
         DLK_ZK_REQUEST_MAX) " bytes (a server's jute.maxbuffer, less room)"},
    {0, DLK_SS_OK, ""},
};

enum dlk_ss_rc dlk_zk_code_rc(int code) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].code == code)
      return codes[i].rc;
  return DLK_SS_FAILED;
}

const char *dlk_zk_code_text(int code, char odd[DLK_ZK_ODD_MAX]) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].code == code)
      return codes[i].text;
  snprintf(odd, DLK_ZK_ODD_MAX, "an error that has no name here (%d)", code);
  return odd;
}
