#!/bin/sh
# Builds the C test programs: the core's unit tests, connections, TLS, the file
# store's tool, and the ZooKeeper store, its client library only where that is
# what is tested.
# usage: spec/c/build.sh DIR [NAME…]   compiles into DIR what is out of date
# there (all, or those of these names); CC and CFLAGS as in the Makefile, so a
# sanitizer build tests them as well. Several may call it with one DIR. What the
# libraries in $BUILD were linked from is not compiled again: make them first.
set -eu
cd "$(dirname "$0")/../.."
out=$1
mkdir -p "$out"
exec 9>"$out/lock"
flock 9
shift
wanted=" $* "
flags="-std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Wshadow
  -Wstrict-prototypes -Wmissing-prototypes -Wconversion -pthread -Icsrc -Ispec/c
  -Ispec/fuzz -I${BUILD:-build}/gen
  $(pkg-config --cflags libuv 2>/dev/null || true) ${CFLAGS:--O1 -g}"
libs=$(pkg-config --libs libuv 2>/dev/null || echo -luv)
made=${BUILD:-build}/obj

# build NAME SOURCE…
build() {
  name=$1
  shift
  case "$wanted" in *" $name "* | "  ") ;; *) return ;; esac
  [ -x "$out/$name" ] && [ -z "$(find csrc spec/c -name '*.[ch]' \
    -newer "$out/$name" | head -n 1)" ] && return
  for one in "$@"; do
    shift
    # shellcheck disable=SC3013
    [ ! "$made/${one%.c}.o" -nt "$one" ] || one=$made/${one%.c}.o
    set -- "$@" "$one"
  done
  # shellcheck disable=SC2086
  ${CC:-cc} $flags "$@" $libs -o "$out/$name.new"
  mv "$out/$name.new" "$out/$name"
}

# The recipe of stores with sessions.
session=csrc/store/session
session="$session/format $session/life $session/recipe $session/query"
# The file store; none of these names has a space in it.
file=$(find csrc/store/file csrc/store/kit -name '*.c')
# shellcheck disable=SC2086
build file_tool -Wl,--wrap=dlk_file_dir_list spec/c/file_tool.c \
  spec/c/host.c csrc/core/*.c $file
build options_test -Wl,--wrap=dlk_clock_now spec/c/options_test.c csrc/core/*.c
build core_test -Wl,--wrap=malloc spec/c/core_test.c csrc/core/*.c
build quiet_test spec/c/quiet_test.c csrc/core/quiet.c
build loop_test -Wl,--wrap=dlk_clock_now -Wl,--wrap=poll \
  spec/c/loop_test.c csrc/core/*.c csrc/loop/*.c
build engine_test -Wl,--wrap=dlk_clock_now spec/c/engine_test.c \
  csrc/core/*.c csrc/loop/*.c csrc/engine/*.c csrc/engine/*/*.c
build close_test -Wl,--wrap=free -Wl,--wrap=dlk_ticket_ref \
  spec/c/close_test.c csrc/core/*.c csrc/loop/*.c \
  csrc/engine/*.c csrc/engine/*/*.c
build table_test -Wl,--wrap=pwrite64 spec/c/table_test.c \
  csrc/core/quiet.c csrc/store/file/format/*.c
# shellcheck disable=SC2086
build queue_test spec/c/queue_test.c spec/c/host.c csrc/core/*.c $file
# shellcheck disable=SC2086
build queue_cut_test -Wl,--wrap=pwrite64 spec/c/queue_cut_test.c \
  spec/c/host.c csrc/core/*.c $file
build redlock_count_test spec/c/redlock_count_test.c \
  csrc/store/redlock/count.c
wraps=
for name in clock deadline; do
  wraps="$wraps -Wl,--wrap=dlk_redlock_$name"
done
# shellcheck disable=SC2086
build redlock_hold_test $wraps spec/c/redlock_hold_test.c csrc/core/*.c \
  csrc/net/wake.c csrc/store/redlock/*.c
build redis_wake_test spec/c/redis_wake_test.c csrc/net/wake.c
net=$(find csrc/net -name '*.c' ! -name net.c)
# shellcheck disable=SC2086
build net_conn_test spec/c/net_conn_test.c spec/c/host.c csrc/core/*.c $net
for part in net conn slots; do
  # shellcheck disable=SC2086
  build "redis_${part}_test" "spec/c/redis_${part}_test.c" spec/c/host.c \
    csrc/core/*.c $net csrc/store/redis/conn/*.c csrc/store/redis/wire/*.c \
    -lhiredis
done
wraps=
for name in CTX_free CTX_new do_handshake free get_shutdown get_version \
  has_pending key_update read_ex session_reused shutdown write_ex; do
  wraps="$wraps -Wl,--wrap=SSL_$name"
done
for part in test dates_test gate_test file_test; do
  # shellcheck disable=SC2046
  build "tls_$part" "spec/c/tls_$part.c" csrc/core/*.c csrc/tls/*.c \
    csrc/net/secure.c -lssl -lcrypto $(case $part in
      gate_test) echo -Wl,--wrap=dlk_tls_enter,--wrap=dlk_tls_leave "$wraps" ;;
      file_test) echo -Wl,--wrap=free,--wrap=realloc ;;
    esac)
done
build secure_test spec/c/secure_test.c csrc/core/*.c csrc/tls/*.c \
  csrc/net/secure.c -lssl -lcrypto
build zookeeper_units spec/c/zookeeper_units.c csrc/core/*.c \
  csrc/store/session/format/names.c csrc/store/session/recipe/queue.c \
  csrc/store/kit/admission.c csrc/store/session/life/proof.c \
  csrc/store/zookeeper/confirm.c csrc/store/zookeeper/path.c
build zookeeper_client -Wl,--wrap=zookeeper_init2 spec/c/zookeeper_client.c \
  csrc/core/*.c csrc/store/session/format/*.c \
  csrc/store/zookeeper/client/*.c -lzookeeper_mt
for part in recipe lists rest sessions ends counter; do
  # shellcheck disable=SC2046,SC2086
  build "zookeeper_$part" "spec/c/zookeeper_$part.c" spec/c/zookeeper_user.c \
    spec/c/zookeeper_link.c spec/c/host.c csrc/core/*.c \
    $(find csrc/store/kit $session csrc/store/zookeeper -name '*.c' ! -path '*/client/*')
done
# shellcheck disable=SC2046,SC2086
build session_floor spec/c/session_floor.c spec/c/host.c csrc/core/*.c \
  $(find csrc/store/kit $session -name '*.c')
build consul_wire spec/c/consul_wire.c csrc/core/buf.c \
  csrc/store/session/format/names.c csrc/store/session/consul/wire/*.c -ljansson
build consul_http spec/c/consul_http.c csrc/core/*.c \
  csrc/store/session/consul/conn/http.c
# shellcheck disable=SC2046,SC2086
build consul_late -Ispec/sim spec/c/consul_late.c spec/c/consul_server.c \
  spec/sim/plain.c csrc/core/*.c \
  $(find csrc/store/kit $session csrc/store/session/asks \
    csrc/store/session/consul -name '*.c' ! -path '*/conn/*') -ljansson
build etcd_wire spec/c/etcd_wire.c csrc/core/buf.c \
  csrc/store/session/format/names.c csrc/store/session/etcd/names.c \
  csrc/store/session/etcd/wire/*.c
# shellcheck disable=SC2046,SC2086
build etcd_late -Ispec/sim spec/c/etcd_late.c spec/c/etcd_server.c \
  spec/sim/plain.c csrc/core/*.c \
  $(find csrc/store/kit csrc/store/session -name '*.c' ! -path '*/conn/*' \
    ! -path '*/consul/*')
build etcd_proof spec/c/etcd_proof.c csrc/core/clock.c \
  csrc/store/session/life/proof.c csrc/store/session/etcd/proof.c
