# The data of the HTML report, and the page around it.
libviewer_la_SOURCES += \
	viewer/report/anchors.c \
	viewer/report/anchors.h \
	viewer/report/block.c \
	viewer/report/block.h \
	viewer/report/boards.c \
	viewer/report/boards.h \
	viewer/report/buckets.c \
	viewer/report/buckets.h \
	viewer/report/fit.c \
	viewer/report/fit.h \
	viewer/report/gather.c \
	viewer/report/gather.h \
	viewer/report/manifest.c \
	viewer/report/manifest.h \
	viewer/report/matrix.c \
	viewer/report/matrix.h \
	viewer/report/name-index.c \
	viewer/report/name-index.h \
	viewer/report/page.c \
	viewer/report/page.h \
	viewer/report/pages.c \
	viewer/report/pages.h \
	viewer/report/series.c \
	viewer/report/series.h

# The sources of the page are built into the command, a number for each byte. `od` is on every machine.
page_includes = \
	viewer/report/job-css.inc \
	viewer/report/job-html.inc \
	viewer/report/job-js.inc \
	viewer/report/page-css.inc \
	viewer/report/page-html.inc \
	viewer/report/page-js.inc
BUILT_SOURCES += $(page_includes)
CLEANFILES += $(page_includes)
EXTRA_DIST += $(page_markup) $(page_styles) $(page_scripts) $(job_markup) $(job_styles) $(job_scripts)

page_bytes = od -An -v -tu1 | sed 's/[0-9][0-9]*/&,/g'
page_strip = LC_ALL=C $(AWK) -f $(srcdir)/viewer/page/strip.awk
EXTRA_DIST += viewer/page/strip.awk

viewer/report/page-html.inc: $(page_markup)
	$(AM_V_GEN)$(MKDIR_P) viewer/report && for file in $(page_markup); do cat $(srcdir)/$$file; done | $(page_bytes) >$@.tmp && mv $@.tmp $@
viewer/report/page-css.inc: $(page_styles) viewer/page/strip.awk
	$(AM_V_GEN)$(MKDIR_P) viewer/report && for file in $(page_styles); do cat $(srcdir)/$$file; done | $(page_strip) -v css=1 | $(page_bytes) >$@.tmp && mv $@.tmp $@
viewer/report/page-js.inc: $(page_scripts) viewer/page/strip.awk
	$(AM_V_GEN)$(MKDIR_P) viewer/report && for file in $(page_scripts); do cat $(srcdir)/$$file; done | $(page_strip) | $(page_bytes) >$@.tmp && mv $@.tmp $@
viewer/report/job-html.inc: $(job_markup)
	$(AM_V_GEN)$(MKDIR_P) viewer/report && for file in $(job_markup); do cat $(srcdir)/$$file; done | $(page_bytes) >$@.tmp && mv $@.tmp $@
viewer/report/job-css.inc: $(job_styles) viewer/page/strip.awk
	$(AM_V_GEN)$(MKDIR_P) viewer/report && for file in $(job_styles); do cat $(srcdir)/$$file; done | $(page_strip) -v css=1 | $(page_bytes) >$@.tmp && mv $@.tmp $@
viewer/report/job-js.inc: $(job_scripts) viewer/page/strip.awk
	$(AM_V_GEN)$(MKDIR_P) viewer/report && for file in $(job_scripts); do cat $(srcdir)/$$file; done | $(page_strip) | $(page_bytes) >$@.tmp && mv $@.tmp $@

# As for the reference in viewer/cli/local.mk.
page_object = viewer/report/libviewer_la-page.lo
$(page_object): $(page_includes)
