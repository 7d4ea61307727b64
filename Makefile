# SPDX-License-Identifier: Apache-2.0
# What people type. Meson and ninja do the work; `make help` lists the targets.

prefix  ?= /usr/local
DESTDIR ?=
MESON   ?= meson

.DEFAULT_GOAL := all
.PHONY: all help deps run demo test check bench fuzz soak deb oci install clean format

all: build/build.ninja  ## build build/trystd, build/tryst and the library
	@[ -e build/trystd ] || echo 'building tryst: it takes a minute or two'
	@ninja -C build --quiet

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

deps:  ## install the Debian packages that are missing
	@scripts/deps test

build/build.ninja:
	@command -v $(MESON) >/dev/null || { echo "meson is missing: 'make deps' installs what is needed" >&2; exit 1; }
	@$(MESON) setup build --prefix=$(prefix) >/dev/null || { cat build/meson-logs/meson-log.txt; exit 1; }

run:  ## install what is missing, build, and start a node on 127.0.0.1:7253
	@scripts/deps build
	@$(MAKE) --no-print-directory all
	@exec build/trystd

demo:  ## three nodes and a crowd of clients: one is killed, a fourth joins, the first leaves, and nothing is lost
	@scripts/deps demo
	@$(MAKE) --no-print-directory all
	@scripts/demo

test:  ## install what is missing, build, and run every test
	@scripts/deps test
	@scripts/test test

check:  ## what a change has to pass besides: format, lint, layers, sanitizers, clang, the other architecture
	@scripts/deps check
	@scripts/test check

bench:  ## timers beside beanstalkd and Redis; placement beside modulo and a textbook HRW
	@scripts/deps bench
	@scripts/bench

fuzz:  ## ten minutes of fuzzing for each parser: SECONDS=60 for less
	@scripts/deps fuzz
	@scripts/fuzz $(or $(SECONDS),600)

soak:  ## the long proofs: the simulator for an hour, clusters of daemons with 10,000 timers, an hour of chaos, kill -9 fifty times
	@scripts/deps check
	@scripts/test soak

deb:  ## Debian packages, in build/deb: tryst, libtryst-place1, libtryst-place-dev
	@scripts/deps deb
	@scripts/deb

oci:  ## an image for containers, in build/oci, from those packages
	@scripts/deps oci
	@scripts/oci

install: all  ## install to DESTDIR and prefix (/usr/local)
	@$(MESON) configure build --prefix=$(prefix) >/dev/null
	@DESTDIR=$(DESTDIR) $(MESON) install -C build --quiet
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

format:  ## lay out the sources
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:  ## remove what was built
	@rm -rf build build-*
