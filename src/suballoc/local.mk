# What pools are made of.
libtidemark_la_SOURCES += \
	src/suballoc/cache.c \
	src/suballoc/cache.h \
	src/suballoc/fit.c \
	src/suballoc/fit.h \
	src/suballoc/heap-chunks.c \
	src/suballoc/heap-parts.h \
	src/suballoc/heap-take.c \
	src/suballoc/heap.c \
	src/suballoc/heap.h \
	src/suballoc/piece-map.c \
	src/suballoc/piece-map.h \
	src/suballoc/piece.h \
	src/suballoc/source.c \
	src/suballoc/source.h \
	src/suballoc/store.c \
	src/suballoc/store.h \
	src/suballoc/streams.c \
	src/suballoc/streams.h \
	src/suballoc/stretches.c \
	src/suballoc/stretches.h \
	src/suballoc/supply-chunks.c \
	src/suballoc/supply-grow.c \
	src/suballoc/supply-parts.h \
	src/suballoc/supply.c \
	src/suballoc/supply.h
