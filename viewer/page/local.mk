# The page of tidemark report; its scripts in the order in which the page has them.
page_markup = viewer/page/page.html
page_styles = viewer/page/page.css
page_scripts = viewer/page/format.js viewer/page/canvas.js viewer/page/data.js viewer/page/view.js viewer/page/link.js \
	viewer/page/timeline.js viewer/page/map.js viewer/page/instant.js viewer/page/icicle.js viewer/page/tables.js \
	viewer/page/gestures.js viewer/page/harness.js viewer/page/selftest.js viewer/page/shell.js \
	viewer/page/start.js

# Its page of a job.
job_markup = viewer/page/ranks.html
job_styles = viewer/page/page.css viewer/page/ranks.css
job_scripts = viewer/page/format.js viewer/page/canvas.js viewer/page/data.js viewer/page/view.js \
	viewer/page/tables.js viewer/page/gestures.js viewer/page/ranks-data.js viewer/page/ranks-link.js \
	viewer/page/ranks-heat.js viewer/page/ranks-one.js viewer/page/ranks-tables.js viewer/page/harness.js \
	viewer/page/ranks-selftest.js viewer/page/shell.js viewer/page/ranks.js
