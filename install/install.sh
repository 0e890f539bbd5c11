#!/bin/sh
# Installs SessionDock for this user: takes the three programs that lie beside this
# script, or in bin/ beside it or above it, or builds them from the source around it;
# then `sessiondock install` shows a plan and carries it out.
#   install/install.sh [--dry-run] [ARGUMENTS of sessiondock install]
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
for bin in "$here" "$here/bin" "$here/../bin"; do
  if [ -x "$bin/sessiondock" ] && [ -x "$bin/sessiondockd" ] && [ -x "$bin/sessiondock-host" ]; then
    exec "$bin/sessiondock" install "$@"
  fi
done
if [ ! -f "$here/../go.mod" ]; then
  echo "error: the programs are not beside this script, and neither is their source" >&2
  echo "hint: unpack the whole archive, or clone the repository" >&2
  exit 1
fi
if ! command -v go >/dev/null; then
  echo "error: building the programs needs Go 1.26, and there is no go in PATH" >&2
  echo "hint: install it (https://go.dev/dl), or take an archive with the programs" >&2
  exit 1
fi
echo "building the programs: make build" >&2
make -C "$here/.." build >&2
exec "$here/../bin/sessiondock" install "$@"
