// What is concluded from counts. That real jobs leave such counts is the business of
// tests/autotuner/openmpi_in_force.py.
#include "autotuner/probe_report.h"

#include <gtest/gtest.h>

#include <fstream>

#include "autotuner/openmpi_allreduce.h"
#include "core/error.h"

namespace ddl::tune {
namespace {

using Verdict = Proof::Verdict;

// By default 4 ranks use ring below 16 bytes, recursive doubling below 8 KiB, then Rabenseifner.
constexpr const char* kRulesText = "1 2 3  0 1  0 0 0 0   4 3  0 3 0 0  8192 5 0 4096  1048576 0 0 0   5 1  0 0 0 0";

ProbeRow row(int64_t elements, int64_t asked, int64_t segment = 0, int64_t ranks = 4) {
  return {ranks, elements, elements * 4, asked, asked, segment, true, 10};
}

std::vector<ProbeFile> all_ranks(const std::vector<ProbeRow>& rows) {
  std::vector<ProbeFile> files;
  for (int64_t rank = 0; rank < 4; ++rank) files.push_back({"f", "Open MPI v4.1.4", rank, 4, true, 0, rows});
  return files;
}

TEST(Proof, OneCallOtherwiseIsEnoughToFail) {
  const std::vector<ProbeRow> good = {row(2, kRecursiveDoubling), row(1000, kRecursiveDoubling),
                                      row(10000, kSegmentedRing, 4096), row(1000000, kRabenseifner),
                                      row(1000, kRing, 0, 2)};
  const Proof proof = prove_openmpi(all_ranks(good), kRulesText, 4);
  EXPECT_EQ(proof.verdict, Verdict::kInForce) << proof.sentence;
  EXPECT_NE(proof.sentence.find("80 calls"), std::string::npos)
      << proof.sentence;  // 1,000 elements by default too; the fourth and fifth have no rule
  EXPECT_TRUE(proof.notes.empty());
  EXPECT_FALSE(proof.wrong_results);
  for (const ProbeRow& bad :
       {row(3, kRing), row(10000, kRabenseifner), row(10000, kSegmentedRing, 8192), row(20000, kRing)}) {
    std::vector<ProbeFile> files = all_ranks(good);
    files[2].rows.push_back(bad);
    EXPECT_EQ(prove_openmpi(files, kRulesText, 4).verdict, Verdict::kNotInForce);
  }
}

TEST(Proof, WhatTheDefaultWouldDoTooProvesNothing) {
  const Proof proof = prove_openmpi(all_ranks({row(1000, kRecursiveDoubling)}), kRulesText, 4);
  EXPECT_EQ(proof.verdict, Verdict::kCannotTell);
  EXPECT_EQ(proof.rows.at(0).match, ProofRow::Match::kSameAsDefault);
  // Segments of 0 bytes are what the table has.
  EXPECT_EQ(prove_openmpi(all_ranks({row(8, kSegmentedRing, 0, 20)}), "1 2 1  20 1  0 5 0 0", 20).rows.at(0).match,
            ProofRow::Match::kSameAsDefault);
}

TEST(Proof, OtherCommunicatorsProveNothing) {
  EXPECT_EQ(prove_openmpi(all_ranks({row(1000, kRing, 0, 2)}), kRulesText, 4).verdict, Verdict::kCannotTell);
  // no rule for 8
  EXPECT_EQ(prove_openmpi(all_ranks({row(2, kRecursiveDoubling)}), kRulesText, 8).verdict, Verdict::kNotInForce);
  EXPECT_EQ(prove_openmpi(all_ranks({row(2, kRecursiveDoubling)}), "1 2 1 4 2 0 3 0 0", 4).verdict,
            Verdict::kNotInForce);
}

TEST(Proof, SaysWhatIsMissing) {
  std::vector<ProbeFile> files = all_ranks({row(2, kRecursiveDoubling)});
  files.pop_back();
  files[0].lost = 3;
  files[1].rows[0].asked = kRing;  // Rabenseifner and the like: the note is about ruled calls
  files[1].rows[0].ran = kRecursiveDoubling;
  const Proof proof = prove_openmpi(files, "1 2 1  4 1  0 4 0 0", 4);
  EXPECT_EQ(proof.verdict, Verdict::kNotInForce);
  ASSERT_EQ(proof.notes.size(), 3u);
  EXPECT_EQ(proof.notes[0], "10 calls gave way to another algorithm than the rule's: too few elements for it");
  EXPECT_EQ(proof.notes[1], "3 calls were not counted");
  EXPECT_EQ(proof.notes[2], "3 of 4 ranks left a count: the others were killed or ended by _exit");
}

TEST(Proof, LibrariesThatCannotBeLookedInto) {
  const auto sentence = [](const std::vector<ProbeFile>& files) {
    const Proof proof = prove_openmpi(files, kRulesText, 4);
    EXPECT_EQ(proof.verdict, Verdict::kCannotTell);
    return proof.sentence;
  };
  EXPECT_NE(sentence({}).find("no process left a count"), std::string::npos);
  EXPECT_NE(sentence({{"f", "MPICH Version: 4.0.2", -1, -1, false, 0, {}}}).find("the job runs MPICH"),
            std::string::npos);
  EXPECT_NE(sentence({{"f", "Open MPI v5.0.8", 0, 1, false, 0, {}}}).find("does not show its algorithms"),
            std::string::npos);
  EXPECT_NE(sentence({{"f", "Open MPI v4.1.4", 0, 1, true, 0, {}}}).find("another component (HAN"), std::string::npos);
}

TEST(Proof, RingsAndOperationsThatDoNotCommute) {
  ProbeRow calls = row(100, kRing);
  calls.commutative = false;
  const Proof proof = prove_openmpi(all_ranks({calls}), "1 2 1  4 1  0 4 0 0", 4);
  ASSERT_EQ(proof.notes.size(), 1u);
  EXPECT_NE(proof.notes[0].find("WRONG"), std::string::npos);
  EXPECT_TRUE(proof.wrong_results);
}

TEST(ProbeFiles, AreReadOrRefused) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "ddl-probe-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const fs::path folder = name;
  const std::string good =
      "ddl-probe-openmpi 1\nlibrary Open MPI \x1b[31mv4\nrank 2 of 4\nsymbols 1\nlost 5\n4 10 40 4 3 0 1 7\nend\n";
  const auto read = [&](const std::string& text) {
    std::ofstream(folder / "a.probe") << text;
    return read_probe_files(folder);
  };
  const std::vector<ProbeFile> files = read(good);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].rank, 2);
  EXPECT_EQ(files[0].lost, 5);
  EXPECT_EQ(files[0].library.find('\x1b'), std::string::npos);
  ASSERT_EQ(files[0].rows.size(), 1u);
  EXPECT_EQ(files[0].rows[0].ran, kRecursiveDoubling);
  for (size_t length = 0; length < good.size(); ++length) EXPECT_THROW(read(good.substr(0, length)), Error) << length;
  for (const char* row : {"4 10 40 4 3 0 1", "4 10 40 4 3 0 1 7 8", "0 10 40 4 3 0 1 7", "4 -1 40 4 3 0 1 7",
                          "4 10 40 4 3 0 1 99999999999999999999", "x"})
    EXPECT_THROW(
        read("ddl-probe-openmpi 1\nlibrary x\nrank 2 of 4\nsymbols 1\nlost 5\n" + std::string(row) + "\nend\n"), Error)
        << row;
  EXPECT_THROW(read_probe_files(folder / "missing"), Error);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ddl::tune
