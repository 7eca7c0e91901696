/* What an answer means to its request.
 *
 * A lost answer (CUT) leaves open whether a write was done. A create is found
 * out by a fresh list (acquire.c), a downgrade by reading the node. A delete is
 * repeated, for it can meet nobody else's node. A write that could (break,
 * guarded write, mark) is not repeated: its caller hears that nobody knows.
 * Reads are repeated until the op is withdrawn. INSIST and SETTLE go on behind
 * their op: nobody else would do it while the session lives.
 *
 * NOAUTH to a look refuses the next look as well; the session is ended, and the
 * node with it.
 *
 * MEMORY is ours: nothing is known of a read, nothing was created. */
#include "store/session/recipe/meaning.h"

#define OK DLK_SS_ANSWERED
#define NONE DLK_SS_MISSING
#define CROSS DLK_SS_CROSSED
#define END DLK_SS_REFUSED
#define AGAIN DLK_SS_REPEAT
#define INSIST DLK_SS_INSIST
#define SETTLE DLK_SS_SETTLE
#define UNSURE DLK_SS_UNSURE

static const struct {
  enum dlk_ss_meaning nonode, version, noauth, cut, memory, other;
} rules[DLK_SS_PURPOSES] = {
    /* clang-format off */
    /*                        NONODE  VERSION NOAUTH  CUT     MEMORY  other */
    [DLK_SS_FOR_NODE]      = {NONE,   END,    END,    SETTLE, END,    END},
    [DLK_SS_FOR_WATCHED]   = {OK,     OK,     OK,     AGAIN,  AGAIN,  OK},
    [DLK_SS_FOR_SETTLING]  = {NONE,   INSIST, END,    INSIST, INSIST, INSIST},
    [DLK_SS_FOR_PLACE]     = {NONE,   AGAIN,  END,    AGAIN,  AGAIN,  AGAIN},
    [DLK_SS_FOR_OWN]       = {NONE,   END,    END,    AGAIN,  END,    END},
    [DLK_SS_FOR_DELETE]    = {NONE,   END,    END,    INSIST, INSIST, END},
    [DLK_SS_FOR_READ]      = {NONE,   END,    END,    AGAIN,  AGAIN,  END},
    [DLK_SS_FOR_ACT]       = {NONE,   CROSS,  END,    UNSURE, UNSURE, OK},
    [DLK_SS_FOR_DOWNGRADE] = {NONE,   CROSS,  END,    SETTLE, SETTLE, END},
    /* clang-format on */
};

enum dlk_ss_meaning dlk_ss_meaning(enum dlk_ss_purpose purpose,
                                   enum dlk_ss_rc rc) {
  switch (rc) {
  case DLK_SS_OK:
    return DLK_SS_ANSWERED;
  case DLK_SS_NONODE:
    return rules[purpose].nonode;
  case DLK_SS_VERSION:
    return rules[purpose].version;
  case DLK_SS_NOAUTH:
    return rules[purpose].noauth;
  case DLK_SS_CUT:
  case DLK_SS_THROTTLED:
    return rules[purpose].cut;
  case DLK_SS_MEMORY:
    return rules[purpose].memory;
  case DLK_SS_EXISTS:
  case DLK_SS_UNBOUND:
  case DLK_SS_UNKNOWN:
  case DLK_SS_FAILED:
    break;
  }
  return rules[purpose].other;
}

bool dlk_ss_until_known(enum dlk_ss_purpose purpose) {
  enum dlk_ss_meaning cut = rules[purpose].cut;
  return cut == DLK_SS_INSIST || cut == DLK_SS_SETTLE;
}

bool dlk_ss_only_once(enum dlk_ss_purpose purpose) {
  return rules[purpose].cut == DLK_SS_UNSURE;
}

enum dlk_code dlk_ss_code(enum dlk_ss_rc rc) {
  return rc == DLK_SS_NOAUTH ? DLK_DENIED : DLK_UNAVAILABLE;
}

enum dlk_code dlk_ss_unanswered(const struct dlk_op *op) {
  bool asked = op->ending == DLK_CANCELLED || op->ending == DLK_CLOSED;
  return asked && op->kind != DLK_OP_RELEASE ? op->ending : DLK_UNAVAILABLE;
}
