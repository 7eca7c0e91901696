/* Scopes of requests, found by the request's address. Another request may have
 * that later: so a scope is found only until its end, and then kept as a spare.
 *
 * The end of a request may come after that of the Lua state: the set lives
 * until its last scope has ended. */
#include "core/list.h"
#include "core/map.h"
#include "engine/engine.h"

#include <stdlib.h>

#define SPARES 256

struct dlk_scopes {
  bool dropped; /* by Lua's end */
  struct dlk_map live;
  struct dlk_member *spare;
  size_t spares;
  uint64_t last;
};

struct dlk_member {
  uint64_t number;
  struct dlk_scope *scope;
  struct dlk_scopes *set;
  const void *of;
  struct dlk_map_node node;
  struct dlk_member *next; /* spare */
};

struct dlk_scopes *dlk_scopes_new(void) {
  return calloc(1, sizeof(struct dlk_scopes));
}

static void free_member(struct dlk_member *m) {
  dlk_scope_free(m->scope);
  free(m);
}

static void free_if_over(struct dlk_scopes *s) {
  if (!s->dropped || s->live.count > 0)
    return;
  while (s->spare) {
    struct dlk_member *m = s->spare;
    s->spare = m->next;
    free_member(m);
  }
  dlk_map_clear(&s->live);
  free(s);
}

void dlk_scopes_drop(struct dlk_scopes *s) {
  if (!s)
    return;
  s->dropped = true;
  free_if_over(s);
}

struct dlk_member *dlk_scopes_find(const struct dlk_scopes *s, const void *of) {
  struct dlk_map_node *node =
      dlk_map_get(&s->live, (const char *)&of, sizeof of);
  return node ? DLK_CONTAINER(node, struct dlk_member, node) : NULL;
}

static struct dlk_member *spare_or_new(struct dlk_scopes *s) {
  struct dlk_member *m = s->spare;
  if (m) {
    s->spare = m->next;
    s->spares--;
    dlk_scope_begin(m->scope);
    return m;
  }
  m = calloc(1, sizeof *m);
  struct dlk_scope *scope = m ? dlk_scope_new() : NULL;
  if (!scope) {
    free(m);
    return NULL;
  }
  m->scope = scope;
  m->set = s;
  return m;
}

static void keep(struct dlk_scopes *s, struct dlk_member *m) {
  if (s->spares == SPARES) {
    free_member(m);
    return;
  }
  m->next = s->spare;
  s->spare = m;
  s->spares++;
}

struct dlk_member *dlk_scopes_begin(struct dlk_scopes *s, const void *of) {
  struct dlk_member *m = spare_or_new(s);
  if (!m)
    return NULL;
  m->of = of;
  m->number = ++s->last;
  if (dlk_map_put(&s->live, &m->node, (const char *)&m->of, sizeof m->of))
    return m;
  dlk_scope_end(m->scope);
  keep(s, m);
  return NULL;
}

uint64_t dlk_member_number(const struct dlk_member *m) {
  return m->number;
}

struct dlk_scope *dlk_member_scope(const struct dlk_member *m) {
  return m->scope;
}

void dlk_member_end(struct dlk_member *m) {
  struct dlk_scopes *s = m->set;
  dlk_map_remove(&s->live, &m->node);
  dlk_scope_end(m->scope);
  keep(s, m);
  free_if_over(s);
}
