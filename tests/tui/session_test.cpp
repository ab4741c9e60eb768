// Keys change the view; no terminal needed.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <sstream>

#include "tests/tui/example.h"
#include "tui/draw.h"
#include "tui/session.h"

namespace ddl::test {
namespace {

using namespace tui;

constexpr Size kSize{80, 24};

Session with_snapshots(int count) {
  Session session{View{}};
  for (int i = 0; i < count; ++i) {
    Snapshot s = example_snapshot();
    s.step = 1000 + static_cast<uint64_t>(i);
    session.add(std::move(s));
  }
  return session;
}

void type(Session& session, const std::string& text) {
  for (const char c : text) session.press(c, kSize);
}

TEST(Session, FilterIsTypedAndMended) {
  Session session = with_snapshots(1);
  type(session, "/late>x\n");
  EXPECT_NE(session.view().message.find("column 6"), std::string::npos) << session.view().message;
  EXPECT_FALSE(session.view().prompt.empty());
  session.press(kErase, kSize);
  type(session, "5\n");
  EXPECT_TRUE(session.view().prompt.empty());
  EXPECT_EQ(visible_lines(session.shown(), session.view()).size(), 1u);
  session.press(kEscape, kSize);
  EXPECT_EQ(visible_lines(session.shown(), session.view()).size(), 16u);
  EXPECT_EQ(session.press(kEscape, kSize), Session::Wish::kQuit);
}

TEST(Session, TheKeysOfAPromptAreText) {
  Session session = with_snapshots(1);
  type(session, "/q");
  EXPECT_EQ(session.view().typed, "q");
}

TEST(Session, PauseAndStepBack) {
  Session session = with_snapshots(5);
  session.press(' ', kSize);
  session.add(example_snapshot());  // goes on behind the scenes
  EXPECT_EQ(session.shown().step, 1004u);
  session.press('[', kSize);
  session.press('[', kSize);
  EXPECT_EQ(session.shown().step, 1002u);
  session.press(']', kSize);
  EXPECT_EQ(session.shown().step, 1003u);
  session.press('{', kSize);
  EXPECT_EQ(session.shown().step, 1000u);
  session.press(kEnd, kSize);
  EXPECT_EQ(session.shown().step, 1842u);
  EXPECT_NE(draw(session.shown(), kSize, {true}, session.view()).text().find("live"), std::string::npos);
}

TEST(Session, APausedPictureStandsStill) {
  Session session = with_snapshots(5);
  session.press(' ', kSize);
  session.press('[', kSize);
  for (size_t i = 0; i < 2 * Session::kPast; ++i) session.add(example_snapshot());
  EXPECT_EQ(session.shown().step, 1003u);
  session.press('[', kSize);
  EXPECT_EQ(session.shown().step, 1002u);
  session.press(' ', kSize);
  EXPECT_EQ(session.shown().step, 1842u);
}

/// A job restarted in the same run directory: the source goes on to its next world.
TEST(Session, ANewWorldIsNotComparedWithTheOneBefore) {
  const auto of_world = [](uint32_t generation, uint64_t step) {
    Snapshot s = example_snapshot();
    s.generation = generation;
    s.step = step;
    return s;
  };
  Session session{View{}};
  for (uint64_t step = 100; step < 105; ++step) session.add(of_world(0, step));
  session.press('b', kSize);
  session.mark("mine");
  session.press(' ', kSize);
  session.press('[', kSize);
  session.add(of_world(1, 0));
  EXPECT_EQ(session.shown().step, 103u) << "a paused picture stands still";
  ASSERT_NE(session.view().baseline, nullptr);
  EXPECT_EQ(session.view().baseline->step, 104u);
  session.press(' ', kSize);
  EXPECT_EQ(session.shown().step, 0u);
  EXPECT_EQ(session.view().baseline, nullptr);
  EXPECT_TRUE(session.view().marks.empty());
  session.add(of_world(1, 1));
  session.press('{', kSize);
  EXPECT_EQ(session.shown().step, 0u) << "the past of this world only";
  session.press(kEnd, kSize);

  session.press('b', kSize);
  session.add(of_world(1, 2));
  ASSERT_NE(session.view().baseline, nullptr);
  EXPECT_EQ(session.view().baseline->step, 1u);
  session.add(of_world(2, 7));
  EXPECT_EQ(session.view().baseline, nullptr);
}

TEST(Session, F10QuitsWhateverIsTyped) {
  Session session = with_snapshots(1);
  type(session, "/late");
  EXPECT_EQ(session.press('q', kSize), Session::Wish::kNothing);
  EXPECT_EQ(session.press(kQuit, kSize), Session::Wish::kQuit);
}

std::string frame_of(const Session& session, Size size) {
  return draw(session.shown(), size, {true}, session.view()).text();
}

/// PgDn never passes the end, so PgUp moves at once.
TEST(Session, PagesEndWhereTheirLinesDo) {
  Snapshot s = example_snapshot();
  for (int i = 0; i < 100; ++i) {
    s.layers.push_back({"layer " + std::to_string(i), 1e6, std::nullopt, std::nullopt, std::nullopt});
    s.collectives.push_back(s.collectives[0]);
    s.collectives.back().bytes = 1000 + i;
    s.blame[{11, 100 + i}] = 1e6;
  }
  for (const int key : {int{kF1}, kF1 + 4, kF1 + 6, int{'w'}}) {
    Session session{View{}};
    session.add(s);
    session.press(key, kSize);
    const std::string begin = frame_of(session, kSize);
    session.press('G', kSize);
    const std::string end = frame_of(session, kSize);
    EXPECT_NE(end, begin) << key;
    for (int i = 0; i < 30; ++i) session.press(kPageDown, kSize);
    EXPECT_EQ(frame_of(session, kSize), end) << key;
    session.press(kUp, kSize);
    EXPECT_NE(frame_of(session, kSize), end) << key;
    session.press('g', kSize);
    EXPECT_EQ(frame_of(session, kSize), begin) << key;
  }
}

/// Nothing is skipped: the first rank of the second page is the one below the last of the first.
TEST(Session, PageDownMovesByWhatIsShown) {
  for (const Size size : {Size{40, 10}, Size{80, 24}, Size{160, 50}}) {
    Session session{View{}};
    session.add(large_snapshot(1024));
    std::istringstream lines(frame_of(session, size));
    int shown = 0;
    for (std::string line; std::getline(lines, line);)
      shown += std::regex_search(line, std::regex("^[> ][! ] +[0-9]+ "));
    session.press(kPageDown, size);
    EXPECT_EQ(session.view().cursor, shown) << size.width;
  }
}

TEST(Session, WhyShowsTheRankUnderTheCursor) {
  Session session = with_snapshots(1);
  session.press('j', kSize);
  session.press(kReturn, kSize);
  EXPECT_NE(draw(session.shown(), kSize, {true}, session.view()).text().find("Why rank 6?"), std::string::npos);
  session.press(kErase, kSize);
  EXPECT_EQ(session.view().page, Page::kMain);
}

TEST(Session, BaselineShowsDifferences) {
  Session session = with_snapshots(1);
  session.press('b', kSize);
  Snapshot later = example_snapshot();
  later.ranks[11].late_ns = 48.2e6;
  session.add(std::move(later));
  session.press('j', kSize);  // clears the message
  const std::string text = draw(session.shown(), kSize, {false}, session.view()).text();
  EXPECT_NE(text.find("dLATEms"), std::string::npos) << text;
  EXPECT_NE(text.find("+10.0"), std::string::npos) << text;
}

TEST(Session, FindWalksAround) {
  Session session = with_snapshots(1);
  session.press(kF1 + 2, kSize);
  type(session, "nid0041\n");
  const int first = session.view().cursor;
  EXPECT_EQ(visible_lines(session.shown(), session.view())[static_cast<size_t>(first)].row->node, "nid0041");
  session.press('n', kSize);
  EXPECT_GT(session.view().cursor, first);
  session.press('N', kSize);
  EXPECT_EQ(session.view().cursor, first);
}

TEST(Session, AClickOnARowPutsTheCursorThere) {
  Session session = with_snapshots(1);
  const std::string text = draw(session.shown(), kSize, {true}, session.view()).text();
  int y = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line.find("nid0041/6") == std::string::npos;) ++y;
  session.click(10, y, kSize);
  EXPECT_EQ(visible_lines(session.shown(), session.view())[static_cast<size_t>(session.view().cursor)].row->rank, 6);
}

/// The keys that a row of the table names; words that are not keys are left out.
std::vector<int> keys_of(const std::string& row) {
  const std::map<std::string, int> kNamed = {
      {"Esc", kEscape}, {"Enter", kReturn}, {"space", ' '}, {"arrows", kDown}, {"Tab", kTab}};
  std::vector<int> keys;
  std::istringstream words(row);
  for (std::string word; words >> word;) {
    if (const auto named = kNamed.find(word); named != kNamed.end()) {
      keys.push_back(named->second);
    } else if (word.size() > 1 && word[0] == 'F') {
      keys.push_back(kF1 + std::stoi(word.substr(1)) - 1);
    } else if (word.size() == 1) {
      keys.push_back(word[0]);
    } else {
      ADD_FAILURE() << "no key: " << word;
    }
  }
  return keys;
}

/// What is in the help must do something, be it to the frame or to what is wished for.
TEST(Session, EveryKeyOfTheTableDoesSomething) {
  const char* rows[] = {
#define DDL_KEY(keys, label, text) keys,
#include "tui/keys.def"
#undef DDL_KEY
  };
  for (const char* row : rows) {
    for (const int key : keys_of(row)) {
      Session session = with_snapshots(2);
      session.press('t', kSize);  // so that + and - have a node to open
      if (key == 'k' || key == '-') session.press(key == 'k' ? 'j' : '+', kSize);
      const std::string before = draw(session.shown(), {160, 50}, {true}, session.view()).text();
      const Session::Wish wish = session.press(key, kSize);
      const bool changed = draw(session.shown(), {160, 50}, {true}, session.view()).text() != before;
      EXPECT_TRUE(changed || wish != Session::Wish::kNothing) << row << ": " << key;
    }
  }
}

TEST(Session, AnyKeyIsSafeAtAnyTime) {
  for (const bool filled : {false, true}) {
    for (int key = -1; key < 256; ++key) {
      Session session = filled ? with_snapshots(2) : Session{View{}};
      session.press(key, {20, 5});
      if (filled) {
        session.press('j', {20, 5});
        draw(session.shown(), {20, 5}, {true}, session.view());
      }
    }
  }
}

}  // namespace
}  // namespace ddl::test
