// Frames: golden ones at the sizes that docs/screens shows and below them, and what holds at every size
// from 20x5 to 400x120.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "reports/safe_text.h"
#include "tests/tui/example.h"
#include "tui/draw.h"

namespace ddl::test {
namespace {

using namespace tui;

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(DDL_GOLDEN_DIRECTORY) + "/" + name + ".txt";
  if (std::getenv("DDL_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << "see " << path << "; DDL_UPDATE_GOLDEN=1 writes it anew";
}

struct Case {
  const char* name;
  Size size;
  bool unicode;
  Page page;
  Snapshot (*snapshot)() = example_snapshot;
};

TEST(Golden, Frames) {
  const Case cases[] = {{"20x5", {20, 5}, true, Page::kMain},
                        {"40x10", {40, 10}, true, Page::kMain},
                        {"80x24", {80, 24}, true, Page::kMain},
                        {"80x24-ascii", {80, 24}, false, Page::kMain},
                        {"160x50", {160, 50}, true, Page::kMain},
                        {"help-80x24", {80, 24}, true, Page::kHelp},
                        {"why-80x24", {80, 24}, true, Page::kWhy},
                        {"matrix-80x24", {80, 24}, true, Page::kMatrix},
                        {"map-80x24", {80, 24}, true, Page::kMap},
                        {"help-40x10", {40, 10}, false, Page::kHelp},
                        {"layers-80x24", {80, 24}, true, Page::kLayers},
                        {"collectives-80x24", {80, 24}, true, Page::kCollectives},
                        {"setup-80x24", {80, 24}, true, Page::kSetup},
                        {"why-hung-80x24", {80, 24}, true, Page::kWhy, hung_snapshot},
                        {"hung-80x24", {80, 24}, true, Page::kMain, hung_snapshot},
                        {"map-1024-80x24", {80, 24}, true, Page::kMap, map_snapshot}};
  for (const Case& c : cases) {
    View view;
    view.page = c.page;
    expect_golden(c.name, draw(c.snapshot(), c.size, {c.unicode}, view).text());
  }
}

/// Without colour every category, alarm and cursor must be told by its character alone.
TEST(Golden, ColourCarriesNothing) {
  Snapshot snapshot = example_snapshot();
  snapshot.shares = Shares{0.6, 0.12, 0.084, 0.083, 0.09, 0.023};  // with copies of GPUs
  const Frame frame = draw(snapshot, {80, 24}, {false}, {});
  std::map<char32_t, std::set<Style>> bars;
  bool alarm = false;
  for (int y = 0; y < frame.height(); ++y) {
    for (int x = 0; x < frame.width(); ++x) {
      const Cell& cell = frame.at(x, y);
      if (cell.style >= Style::kCompute) bars[cell.glyph].insert(cell.style);
      if (cell.style == Style::kAlarm && cell.glyph == U'!') alarm = true;
    }
  }
  EXPECT_TRUE(alarm);
  EXPECT_EQ(bars.size(), kCategories);
  for (const auto& [glyph, styles] : bars) EXPECT_EQ(styles.size(), 1u) << static_cast<uint32_t>(glyph);
}

TEST(Layout, NoOverlapNothingOutsideNothingEmpty) {
  for (int width = 20; width <= 400; width += width < 170 ? 3 : 23) {
    for (int height = 5; height <= 120; height += height < 60 ? 2 : 7) {
      for (const int ranks : {0, 4, 1024}) {
        for (const int panels : {15, 0, 9}) {
          Contents contents;
          contents.ranks = ranks;
          contents.collectives = ranks % 7;
          contents.layers = ranks % 9;
          contents.history = 300;
          contents.headline = 110;
          for (int p = 0; p < 4; ++p) contents.panels[p] = (panels >> p & 1) != 0;
          std::vector<int> owner(static_cast<size_t>(width * height), -1);
          for (const Placed& part : layout({width, height}, contents)) {
            const Rect& r = part.rect;
            ASSERT_TRUE(r.x >= 0 && r.y >= 0 && r.width > 0 && r.height > 0 && r.right() <= width &&
                        r.bottom() <= height)
                << width << "x" << height << " ranks " << ranks << " panels " << panels << " area "
                << static_cast<int>(part.area);
            for (int y = r.y; y < r.bottom(); ++y) {
              for (int x = r.x; x < r.right(); ++x) {
                int& cell = owner[static_cast<size_t>(y * width + x)];
                ASSERT_EQ(cell, -1) << width << "x" << height << " at " << x << "," << y;
                cell = static_cast<int>(part.area);
              }
            }
          }
        }
      }
    }
  }
}

/// Words with digits. Counts of what is on the screen, which depend on its size, are left out.
std::set<std::string> numbers_of(const Frame& frame) {
  const std::string text =
      std::regex_replace(frame.text(), std::regex(R"(\d+-\d+ of \d+|\d+ steps, newest right|[0-9.]+│|│|\|)"), " ");
  std::set<std::string> numbers;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool name = word.find("..") != std::string::npos;  // shortened in its middle
    if (!name && word.find_first_of("0123456789") != std::string::npos) numbers.insert(word);
  }
  return numbers;
}

/// Two groups do the same: rows that differ in nothing but their communicator say which one they are of, whatever else
/// falls away for it.
TEST(Collectives, OfGroupsAreToldApart) {
  Snapshot s = example_snapshot();
  s.collectives.resize(2);
  s.collectives[1] = s.collectives[0];
  for (size_t i = 0; i < 2; ++i) s.collectives[i].comm = "MPI_Comm_split#" + std::to_string(i + 1);
  for (const Size size : {Size{80, 24}, Size{120, 40}, Size{200, 50}}) {
    const std::string text = draw(s, size, {true}, View()).text();
    EXPECT_NE(text.find("#1 "), std::string::npos) << text;
    EXPECT_NE(text.find("#2 "), std::string::npos) << text;
    EXPECT_NE(text.find("BUSBW"), std::string::npos) << text;
  }
  s.collectives[1].bytes = 4096;
  EXPECT_EQ(draw(s, {80, 24}, {true}, View()).text().find("#1 "), std::string::npos) << "bytes tell them apart";
}

/// A number on a small screen is one of those that the golden screens, which were looked at, show whole.
TEST(Layout, NoNumberIsCut) {
  const Snapshot s = example_snapshot();
  std::set<std::string> whole;
  for (const Size size :
       {Size{20, 5}, Size{30, 8}, Size{40, 10}, Size{80, 24}, Size{100, 60}, Size{160, 50}, Size{400, 120}})
    whole.merge(numbers_of(draw(s, size, {true}, {})));
  const std::regex oldest_step(R"(1[678]\d\d)");  // of the history: depends on the width
  for (int width = 20; width <= 400; width += width < 70 ? 2 : 41) {
    for (int height = 5; height <= 120; height += height < 30 ? 3 : 23) {
      for (const std::string& number : numbers_of(draw(s, {width, height}, {true}, {}))) {
        ASSERT_TRUE(whole.contains(number) || std::regex_match(number, oldest_step))
            << "'" << number << "' at " << width << "x" << height << "\n"
            << draw(s, {width, height}, {true}, {}).text();
      }
    }
  }
}

/// Without marked steps the live view counts by seconds, and no page speaks of steps.
TEST(Pages, OfAJobWithoutStepsCountBySeconds) {
  Snapshot s = example_snapshot();
  for (const Page page : {Page::kWhy, Page::kMain, Page::kLayers}) {
    View view;
    view.page = page;
    s.annotated = true;
    EXPECT_NE(draw(s, {160, 50}, {true}, view).text().find("per step"), std::string::npos);
    s.annotated = false;
    const std::string text = draw(s, {160, 50}, {true}, view).text();
    EXPECT_EQ(text.find("per step"), std::string::npos) << text;
    EXPECT_EQ(text.find("LATE, by step"), std::string::npos) << text;
    EXPECT_NE(text.find("per second"), std::string::npos) << text;
  }
}

TEST(Pages, WhyThereIsNoMatrixIsSaidInFull) {
  Snapshot s = example_snapshot();
  s.blame.clear();
  s.negotiates = true;
  View view;
  view.page = Page::kMatrix;
  EXPECT_NE(draw(s, {80, 24}, {true}, view).text().find("is late"), std::string::npos)
      << draw(s, {80, 24}, {true}, view).text();
}

/// Most of next to no waiting is for rank 0: that is nothing to look at. 2 % of the others' time is
/// (specification.md R8).
TEST(Pages, WhoIsHardlyWaitedForIsNoAdvice) {
  Snapshot s = example_snapshot();
  const double others_ns = *s.p50_ns * static_cast<double>(s.ranks.size() - 1);
  for (const double share : {0.0004, 0.03}) {
    s.blame = {};
    s.blame[{0, 1}] = share * others_ns;
    s.blame[{2, 1}] = 0.3 * share * others_ns;
    const std::string text = draw(s, {160, 50}, {true}, {}).text();
    EXPECT_EQ(text.find("rank 0     kept others") != std::string::npos, share > 0.02) << text;
    EXPECT_EQ(text.find("by who came last") != std::string::npos, share > 0.02) << text;
    EXPECT_EQ(text.find("rank 2     kept others"), std::string::npos) << text;
  }
}

TEST(Layout, AnySizePageAndJobCanBeDrawn) {
  for (const Snapshot& s : {Snapshot{}, example_snapshot(), large_snapshot(1024), hostile_snapshot()}) {
    for (const Size size : {Size{20, 5}, Size{21, 6}, Size{39, 9}, Size{59, 13}, Size{80, 24}, Size{119, 30},
                            Size{120, 30}, Size{149, 40}, Size{400, 120}}) {
      for (const Page page :
           {Page::kMain, Page::kHelp, Page::kWhy, Page::kMatrix, Page::kMap, Page::kLayers, Page::kCollectives}) {
        View view;
        view.page = page;
        view.by_node = size.width % 2 == 0;
        const Frame frame = draw(s, size, {size.height % 2 == 0}, view);
        EXPECT_EQ(frame.width(), size.width);
        EXPECT_NE(frame.text().find_first_not_of(" \n"), std::string::npos);
      }
    }
  }
}

TEST(Hostile, NamesAreInert) {
  for (const Size size : {Size{40, 10}, Size{80, 24}, Size{160, 50}}) {
    for (const Page page : {Page::kMain, Page::kWhy, Page::kLayers, Page::kCollectives}) {
      View view;
      view.page = page;
      const Frame frame = draw(hostile_snapshot(), size, {true}, view);
      const std::string text = frame.text();
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        EXPECT_EQ(reports::printable(line), line);
        EXPECT_LE(reports::display_width(line), static_cast<size_t>(size.width));
      }
      for (int y = 0; y < frame.height(); ++y) {
        for (int x = 0; x < frame.width(); ++x) {
          const char32_t glyph = frame.at(x, y).glyph;
          EXPECT_FALSE((glyph > 0 && glyph < 0x20) || (glyph >= 0x7f && glyph < 0xa0)) << static_cast<uint32_t>(glyph);
        }
      }
    }
  }
}

/// What does not fit of a prompt is its begin, and no character is cut in two.
TEST(Keys, TheEndOfALongPromptIsShown) {
  View view;
  view.prompt = "filter: ";
  for (const std::string letter : {"a", "é", "字"}) {
    view.typed.clear();
    for (int i = 0; i < 60; ++i) view.typed += letter;
    view.typed += "Z";
    for (int width = 38; width < 44; ++width) {
      const std::string text = draw(example_snapshot(), {width, 10}, {true}, view).text();
      std::string shown = text.substr(text.find(view.prompt) + view.prompt.size());
      EXPECT_GE(static_cast<int>(reports::display_width(shown)), width - static_cast<int>(view.prompt.size()) - 2)
          << shown;
      for (size_t at; (at = shown.find(letter)) != std::string::npos;) shown.erase(at, letter.size());
      EXPECT_EQ(shown, "Z_\n") << text;
    }
  }
}

/// Of GPUs nothing is known: no share is called computing, none idle.
TEST(Gpus, WhatIsNotKnownIsNotShown) {
  Snapshot s = example_snapshot();
  s.gpus = s.device_collectives = true;
  s.waiting_known = false;
  s.overlap_ratio.reset();
  for (const Size size : {Size{40, 10}, Size{80, 24}, Size{160, 50}}) {
    const std::string text = draw(s, size, {true}, {}).text();
    for (const char* word : {"comp ", "compute", "idle", "overlap", "STEP GOES", "exposed 1"})
      EXPECT_EQ(text.find(word), std::string::npos) << word << "\n" << text;
    EXPECT_NE(text.find("in MPI"), std::string::npos) << text;
  }
}

TEST(Status, SpoolsThatCannotBeReadAreNamed) {
  Snapshot s = example_snapshot();
  s.unreadable_spools = 2;
  s.unreadable_why = "n0.7.1.spool: not a ddl spool";
  EXPECT_NE(draw(s, {80, 24}, {true}, {}).text().find("2 spools unreadable"), std::string::npos);
  const std::string wide = draw(s, {160, 50}, {true}, {}).text();
  EXPECT_NE(wide.find("2 spools unreadable: n0.7.1.spool: not a ddl spool"), std::string::npos) << wide;
}

TEST(Ranks, GuiltyFirstThenByLateness) {
  const Snapshot s = example_snapshot();
  const std::vector<Line> lines = visible_lines(s, {});
  ASSERT_EQ(lines.size(), 16u);
  EXPECT_EQ(lines[0].row->rank, 11);
  EXPECT_EQ(lines[1].row->rank, 6);
  View by_rank;
  by_rank.sort = Column::kRank;
  EXPECT_EQ(visible_lines(s, by_rank)[0].row->rank, 0);
  by_rank.inverted = true;
  EXPECT_EQ(visible_lines(s, by_rank)[0].row->rank, 15);
  View grouped;
  grouped.by_node = true;
  grouped.open_nodes = {"nid0042"};
  const std::vector<Line> nodes = visible_lines(s, grouped);
  ASSERT_EQ(nodes.size(), 2u + 8u);
  EXPECT_TRUE(nodes[0].node);
  EXPECT_EQ(nodes[0].row->rank, 11);
  EXPECT_EQ(nodes[0].ranks, 8);
}

TEST(Gpus, HostsOfAJobWithoutMpiAreOutsideCollectives) {
  Snapshot s = example_snapshot();
  s.gpus = true;
  for (const bool mpi : {true, false}) {
    s.mpi = mpi;
    const std::string text = draw(s, {160, 40}, {true}, {}).text();
    EXPECT_EQ(text.find("outside MPI") != std::string::npos, mpi) << text;
    EXPECT_EQ(text.find("outside collectives") != std::string::npos, !mpi) << text;
    EXPECT_EQ(text.find("in MPI") != std::string::npos, mpi) << text;
  }
}

}  // namespace
}  // namespace ddl::test
