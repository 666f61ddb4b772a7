# Maps of addresses and ids.
libtidemark_la_SOURCES += \
	src/tables/address-shards.c \
	src/tables/address-shards.h \
	src/tables/blocks.c \
	src/tables/blocks.h \
	src/tables/entries.c \
	src/tables/entries.h \
	src/tables/grow.h \
	src/tables/lives.c \
	src/tables/lives.h \
	src/tables/map.c \
	src/tables/map.h
