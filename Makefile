# Everything a person types. CMake + Ninja do the work; scripts/ holds what needs more than a line.
BUILD  ?= build
PREFIX ?= /usr/local
CMAKE_FLAGS ?=
CTEST_ARGS ?=
export CTEST_ARGS

# LD_PRELOAD has both as separators.
space := $(subst ,, )
ifneq ($(findstring $(space),$(CURDIR)$(BUILD))$(findstring :,$(CURDIR)$(BUILD)),)
  $(error libvgpu.so cannot be preloaded from "$(CURDIR)": a path with a space or a colon; move the clone)
endif

.PHONY: all build demo test check bench install install-strip uninstall clean format help needs deps deps-test deps-check

all: build

# Only demo, test, check and deps install anything.
build: needs ## build/vgpu, build/libvgpu.so, build/sim/
	@mkdir -p $(BUILD)
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS) >$(BUILD).log 2>&1 || { cat $(BUILD).log; rm -f $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
	@cmake --build $(BUILD) -- --quiet >&2

needs:
	@scripts/deps.sh need build

deps: ## install the Debian packages that the build needs, if any is missing
	@scripts/deps.sh install build

deps-test:
	@scripts/deps.sh install test

deps-check:
	@scripts/deps.sh install check

# What is installed is there when the build looks for it.
needs: $(if $(filter demo,$(MAKECMDGOALS)),deps) $(if $(filter test,$(MAKECMDGOALS)),deps-test) $(if $(filter check,$(MAKECMDGOALS)),deps-check)

demo: build ## the main job, on the GPU where there is a driver, else on the simulator
	@demo/demo.sh $(BUILD)

test: build ## the fast tests, without a GPU; CTEST_ARGS="-R name" for some of all
	@scripts/test.sh $(BUILD)

check: build ## all tests, and: both compilers with -Werror, sanitizers, aarch64, Debian 11
	@FULL=1 scripts/test.sh $(BUILD)

bench: build ## what the hooks cost, as differences measured in pairs
	@bench/run.sh $(BUILD)

install: build ## PREFIX (default /usr/local) and DESTDIR are honoured
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

install-strip: build ## the same, without symbols for debuggers
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)" --strip

uninstall: ## what the last install from this build put there; DESTDIR is honoured
	@DESTDIR="$(DESTDIR)" scripts/uninstall.sh $(BUILD)

format: ## clang-format, in place
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf $(BUILD)

help:
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile
