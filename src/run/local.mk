# The objects that `tidemark run` loads into other programs. None of them is linked by anything.
if RUN
run_objects = libtidemark-audit.la libtidemark-run.la libtidemark-dlsym.la
pkglib_LTLIBRARIES += $(run_objects)

# Freestanding: with a C library of its own it would bring a second one into each process.
libtidemark_audit_la_SOURCES = \
	src/run/audit.c \
	src/run/elf-symbols.h \
	src/run/names.h
libtidemark_audit_la_CPPFLAGS = $(AM_CPPFLAGS)
libtidemark_audit_la_CFLAGS = -std=gnu11 -fvisibility=hidden -Wall -Wextra $(WERROR_CFLAGS) -ffreestanding -fno-builtin \
	-fno-stack-protector $(NO_LOOP_CALLS_CFLAGS)
libtidemark_audit_la_LDFLAGS = -module -avoid-version -shared -Wc,-nostdlib -Wl,-z,now

run_sources = \
	src/process/functions.def \
	src/run/address.c \
	src/run/driver.c \
	src/run/environment.c \
	src/run/names.h \
	src/run/run.h \
	src/run/start.c \
	src/run/stubs.c
run_cflags = $(AM_CFLAGS) -fno-omit-frame-pointer

libtidemark_run_la_SOURCES = $(run_sources)
libtidemark_run_la_CPPFLAGS = $(AM_CPPFLAGS)
libtidemark_run_la_CFLAGS = $(run_cflags)
libtidemark_run_la_LDFLAGS = -module -avoid-version -shared -no-undefined
libtidemark_run_la_LIBADD = -ldl

libtidemark_dlsym_la_SOURCES = $(run_sources) src/run/dlsym.c src/run/elf-symbols.h
libtidemark_dlsym_la_CPPFLAGS = $(AM_CPPFLAGS) -DTIDEI_RUN_OWN_DLSYM
libtidemark_dlsym_la_CFLAGS = $(run_cflags)
libtidemark_dlsym_la_LDFLAGS = -module -avoid-version -shared -no-undefined
libtidemark_dlsym_la_LIBADD = -ldl
endif
