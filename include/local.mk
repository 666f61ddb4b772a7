# The headers of adaptors are in adaptors/local.mk.
pkgincludedir = $(includedir)/tidemark
pkginclude_HEADERS = \
	include/tidemark/base.h \
	include/tidemark/bridge.h \
	include/tidemark/callstack.h \
	include/tidemark/driver.h \
	include/tidemark/export.h \
	include/tidemark/message.h \
	include/tidemark/process.h \
	include/tidemark/resource.h \
	include/tidemark/sized.h \
	include/tidemark/stack.h \
	include/tidemark/status.h \
	include/tidemark/tag.h \
	include/tidemark/text.h \
	include/tidemark/trace.h \
	include/tidemark/version.h \
	include/tidemark/vmm.h \
	include/tidemark/tidemark.h
