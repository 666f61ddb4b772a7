# Chunks into blocks: what pools are made of.
libtidemark_la_SOURCES += \
	src/suballoc/cache.c \
	src/suballoc/cache.h \
	src/suballoc/chunk-heap-inner.h \
	src/suballoc/chunk-heap-pages.c \
	src/suballoc/chunk-heap-upstream.c \
	src/suballoc/chunk-heap.c \
	src/suballoc/chunk-heap.h \
	src/suballoc/chunks.c \
	src/suballoc/chunks.h \
	src/suballoc/decay.c \
	src/suballoc/decay.h \
	src/suballoc/fit.c \
	src/suballoc/fit.h \
	src/suballoc/heap-inner.h \
	src/suballoc/heap.c \
	src/suballoc/heap.h \
	src/suballoc/leaving.c \
	src/suballoc/leaving.h \
	src/suballoc/piece-map.c \
	src/suballoc/piece-map.h \
	src/suballoc/piece.h \
	src/suballoc/range.c \
	src/suballoc/range.h \
	src/suballoc/slab.c \
	src/suballoc/slab.h \
	src/suballoc/streams.c \
	src/suballoc/streams.h
