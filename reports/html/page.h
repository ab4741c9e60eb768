// The HTML report: one file that needs no network, no other file and no JavaScript. Its content security policy
// allows the style sheet (by its hash) and nothing else, so that nothing in it can load or run anything, whatever
// names the run holds.
//
// Budget: 300 KiB for 64 ranks, 1 MiB for 1,024. What grows with ranks or steps is binned in figures and cut in tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/document.h"
#include "reports/html/figure.h"
#include "reports/run_view.h"

namespace ddl::reports::html {

/// Every figure that the run has something for.
std::vector<Figure> build_figures(const RunView& run);

/// `document`: build_page() of overview.h.
std::string render_page(const Document& document, const std::vector<Figure>& figures);

// ---- The style sheet, embedded at build time from style.css by embed.cmake.
extern const std::string_view kStyle;
extern const std::string_view kStyleHash;  ///< as a content security policy names it: sha256-...

}  // namespace ddl::reports::html
