/* A loop frees siblings; only nesting recurses, at most three levels deep. */
#include "core/value.h"

#include <stdlib.h>
#include <string.h>

static struct dlk_value *make(enum dlk_value_kind kind) {
  struct dlk_value *v = calloc(1, sizeof *v);
  if (v)
    v->kind = kind;
  return v;
}

struct dlk_value *dlk_value_nil(void) {
  return make(DLK_VALUE_NIL);
}

struct dlk_value *dlk_value_list(void) {
  return make(DLK_VALUE_LIST);
}

struct dlk_value *dlk_value_map(void) {
  return make(DLK_VALUE_MAP);
}

struct dlk_value *dlk_value_tuple(void) {
  return make(DLK_VALUE_TUPLE);
}

struct dlk_value *dlk_value_bool(bool b) {
  struct dlk_value *v = make(DLK_VALUE_BOOL);
  if (v)
    v->u.boolean = b;
  return v;
}

struct dlk_value *dlk_value_int(int64_t n) {
  struct dlk_value *v = make(DLK_VALUE_INT);
  if (v)
    v->u.integer = n;
  return v;
}

struct dlk_value *dlk_value_number(double n) {
  struct dlk_value *v = make(DLK_VALUE_NUMBER);
  if (v)
    v->u.number = n;
  return v;
}

struct dlk_value *dlk_value_string(const char *s, size_t len) {
  struct dlk_value *v = make(DLK_VALUE_STRING);
  if (!v)
    return NULL;
  v->u.string.data = malloc(len + 1);
  if (!v->u.string.data) {
    free(v);
    return NULL;
  }
  if (len)
    memcpy(v->u.string.data, s, len);
  v->u.string.data[len] = '\0';
  v->u.string.len = len;
  return v;
}

struct dlk_value *dlk_value_add(struct dlk_value *parent,
                                struct dlk_value *child) {
  if (!parent || !child) {
    dlk_value_free(parent);
    dlk_value_free(child);
    return NULL;
  }
  if (parent->u.children.last)
    parent->u.children.last->next = child;
  else
    parent->u.children.first = child;
  parent->u.children.last = child;
  return parent;
}

struct dlk_value *dlk_value_set(struct dlk_value *parent, const char *name,
                                struct dlk_value *child) {
  if (child)
    child->name = name;
  return dlk_value_add(parent, child);
}

void dlk_value_free(struct dlk_value *v) {
  while (v) {
    struct dlk_value *next = v->next;
    if (v->kind == DLK_VALUE_STRING)
      free(v->u.string.data);
    else if (v->kind >= DLK_VALUE_LIST)
      dlk_value_free(v->u.children.first);
    free(v);
    v = next;
  }
}
