# NVTX: what pools tell a tool, and the library that makes ranges tags.
libtidemark_la_SOURCES += \
	src/nvtx/blocks.c \
	src/nvtx/blocks.h \
	src/nvtx/tool.c \
	src/nvtx/tool.h

# Loaded by NVTX, by its path; never linked. It exports one function.
if NVTX
pkglib_LTLIBRARIES += libtidemark-nvtx.la
libtidemark_nvtx_la_SOURCES = src/nvtx/injection.c src/nvtx/names.c src/nvtx/names.h
libtidemark_nvtx_la_CPPFLAGS = $(AM_CPPFLAGS)
libtidemark_nvtx_la_CFLAGS = $(AM_CFLAGS)
libtidemark_nvtx_la_LDFLAGS = -module -avoid-version -no-undefined -pthread -Wl,-z,nodelete
libtidemark_nvtx_la_LIBADD = -ldl
endif
