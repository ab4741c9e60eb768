#include "store/import/json_records.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "tests/support/synthetic_run.h"

namespace ddl::store {
namespace {

/// Writes down what it is told.
class Notes : public JsonVisitor {
 public:
  std::string text;

 private:
  bool wants_list(std::string_view path) const override { return path == "list" || path == "args.list"; }
  void on_fact(const JsonField& fact) override {
    text += std::string(fact.path).append("=").append(fact.text).append(";");
  }
  void on_record(const JsonRecord& record) override {
    text += "{";
    for (const char* path : {"name", "ts", "args.stream", "args.deep.x", "grid", "none", "list", "args.list"})
      if (const JsonField* field = record.find(path))
        text += std::string(path).append("=").append(field->text).append(" ");
    if (record.word("name") == "bad") record.integer("ts");
    text += "}";
  }
};

class JsonRecordsTest : public testing::Test {
 protected:
  std::string read(const std::string& contents, bool lines = false) {
    const std::filesystem::path path = folder_ / "t.json";
    std::ofstream(path, std::ios::binary) << contents;
    Notes notes;
    InputFile file(path, {});
    lines ? read_json_lines(file, notes) : read_json(file, "traceEvents", notes);
    return notes.text;
  }
  std::string error(const std::string& contents, bool lines = false) {
    try {
      return "read: " + read(contents, lines);
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.substr(what.find("t.json"));
    }
  }
  test::ScratchFolder folder_;
};

TEST_F(JsonRecordsTest, TellsFactsAndRecords) {
  EXPECT_EQ(read(R"({"v": 1, "info": {"rank": 3, "groups": [{"ranks": [0, 7]}, {"name": "x"}]},
                     "traceEvents": [{"name": "a", "ts": 1.50, "args": {"stream": 7, "deep": {"x": true}}, "grid": [1, 2], "none": null}, {"name": "b"}],
                     "end": false})"),
            "v=1;info.rank=3;info.groups.0.ranks.0=0;info.groups.0.ranks.1=7;info.groups.1.name=x;"
            "{name=a ts=1.50 args.stream=7 args.deep.x=true }{name=b }end=false;");
}

TEST_F(JsonRecordsTest, TellsListsThatAreWanted) {
  EXPECT_EQ(
      read(R"([{"name": "a", "list": [[8, -1.5e3 ], [], ["x y", null], true], "args": {"list": [], "stream": 7}}])"),
      R"({name=a args.stream=7 list=[[8,-1.5e3],[],["x y",null],true] args.list=[] })");
  EXPECT_EQ(read(R"({"name": "b", "list": [1, [2]]})", true), "{name=b list=[1,[2]] }");
  EXPECT_EQ(read(R"([{"list": ["a\"],[\"b", "c\\d"], "args": {"list": 4}}])"), R"({list=["?","?"] args.list=4 })")
      << "no text ends early";
  EXPECT_EQ(read(R"([{"list": [1, {"list": [2], "name": "x"}, 3], "name": "after"}])"), "{name=after }")
      << "one with objects is not told";
  EXPECT_EQ(read(R"([{"grid": [{"list": [2]}], "other": [[1], 2], "name": "a"}])"), "{name=a }");
  std::string numbers = "1";
  for (int i = 0; i < 2000; ++i) numbers += ",10";
  EXPECT_EQ(read(R"([{"list": [)" + numbers + R"(], "args": {"list": [1]}}])"), "{args.list=[1] }") << "nor a long one";
}

TEST_F(JsonRecordsTest, TellsTheSameOfPlainRecordsAndOfOthers) {
  const std::string plain[] = {
      R"("name": "a", "ts": -0.5)",
      R"("name" : "é {[,]}:" ,"ts":1623143089861123.456, "args": { } )",
      R"("args": {"deep": {"x": {"y": 1}, "stream": 2}, "stream": null, "list": [1]}, "args.stream": 5)",
      R"("args": {"deep": {"x": "far"}}, "name": "a name of more than eight bytes", "name": "twice")",
      R"("list": [[8, -1.5 ], [], ["x y", null, true, false], {}, 3], "grid": [{"list": [2]}, [[]]], "ts": 0)",
      R"("list": [[8, "e"], [ ]], "args": {"list": [ [ "q" ] , 2]})",
      R"("list": 3, "none": null, "args": [], "ts": 00)",
      R"("list": [1,], "name": "a comma more")",
      R"("ts": 1.)",
      R"("ts": .5)",
      R"("ts": -)",
      R"("ts": 1 2)",
      R"("name": tru)",
      R"("name" "a")",
      R"("args": {"list": [1, 2)",
      "\"name\": \"a\nb\"",
  };
  int told = 0;
  for (const std::string& members : plain) {
    // RapidJSON is left what has a backslash in it.
    const std::string other = "[{\"other\": \"\\u0041\", " + members + "}]";
    const std::string with_other = error(other), without = error("[{" + members + "}]");
    told += with_other.starts_with("read: ");
    if (with_other.starts_with("read: ")) {
      EXPECT_EQ(without, with_other) << members;
    } else {
      EXPECT_EQ(without.substr(without.find(": ")), with_other.substr(with_other.find(": "))) << members;
    }
  }
  EXPECT_EQ(told, 7);
  // Across the ends of blocks of the file.
  std::string records[2];
  for (int i = 0; i < 9'000; ++i) {
    const std::string members = "\"name\": \"n" + std::to_string(i * i) +
                                "\", \"args\": {\"stream\": " + std::to_string(i) + ", \"list\": [[" +
                                std::string(static_cast<size_t>(i % 50), '4') + "9]]}}";
    records[0] += (i > 0 ? ", {" : "{") + members;
    records[1] += (i > 0 ? ", {\"other\": \"\\u0041\"," : "{") + members;
  }
  EXPECT_EQ(read("[" + records[0] + "]"), read("[" + records[1] + "]"));
}

TEST_F(JsonRecordsTest, TakesABareArrayAlsoWhileItIsWritten) {
  EXPECT_EQ(read(R"([{"name": "a"}, {"name": "b"}])"), "{name=a }{name=b }");
  EXPECT_EQ(read("[{\"name\": \"a\"},\n{\"name\": \"b\"},\n"), "{name=a }{name=b }");
  EXPECT_EQ(read("[\n"), "");
  EXPECT_EQ(error(R"([{"name": "a"}, {"name")"),
            "t.json, byte 23: the file ends in the middle of a record: it is truncated, or still being written");
}

TEST_F(JsonRecordsTest, ReadsLines) {
  EXPECT_EQ(read("{\"name\": \"a\", \"args\": {\"stream\": 2}}\n\n {\"name\": \"b\"}", true),
            "{name=a args.stream=2 }{name=b }");
  EXPECT_EQ(error("{\"name\": \"a\"}\n17\n", true), "t.json, byte 14: expected a JSON object");
  EXPECT_EQ(error(" \n", true), "t.json, byte 0: the file is empty");
}

TEST_F(JsonRecordsTest, NamesThePlaceOfWhatIsWrong) {
  EXPECT_EQ(error(""),
            "t.json, byte 0: the file ends in the middle of a record: it is truncated, or still being written");
  EXPECT_EQ(error("{}"), "t.json, byte 0: no array \"traceEvents\" in this file");
  EXPECT_EQ(error(R"({"traceEvents": {}})"), "t.json, byte 0: no array \"traceEvents\" in this file");
  EXPECT_EQ(error(R"({"traceEvents": [{"name": "a"}, 5]})"), "t.json, byte 33: expected an object");
  EXPECT_EQ(error(R"({"traceEvents": [{"name": "a"}]} x)"), "t.json, byte 33: text after the end of the document");
  EXPECT_EQ(error(R"({"traceEvents": [{"name": "bad", "ts": "soon"}]})"),
            "t.json, byte 17: ts is \"soon\", which is not a whole number that fits");
  EXPECT_EQ(error(R"({"traceEvents": [{"name": "bad", "ts": 1e30}]})"),
            "t.json, byte 17: ts is 1e30, which is not a whole number that fits");
  EXPECT_EQ(error("{\"traceEvents\": [" + std::string(100, '[')),
            "t.json, byte 79: objects and arrays are nested deeper than 64 levels");
  EXPECT_NE(error("{\"a\": tru}").find("t.json, byte 9: invalid JSON: "), std::string::npos);
  EXPECT_NE(error(std::string("\x7f"
                              "ELF\0\1",
                              6))
                .find("t.json, byte 0: invalid JSON: "),
            std::string::npos);
}

TEST_F(JsonRecordsTest, StopsAtATextWithoutEnd) {
  const std::string message =
      error("{\"traceEvents\": [{\"name\": \"" + std::string(InputFile::kMaxPieceBytes + (1 << 20), 'x') + "\"}]}");
  EXPECT_NE(message.find("is longer than 64 MiB"), std::string::npos) << message.substr(0, 200);
}

TEST_F(JsonRecordsTest, UnpacksAndNoticesWhatWasCut) {
  std::string events;
  for (int i = 0; i < 200'000; ++i) events += "{\"name\": \"event " + std::to_string(i * 7919 % 100'003) + "\"}, ";
  const std::string document = "{\"traceEvents\": [" + events + "{}]}";
  const std::filesystem::path path = folder_ / "t.json.gz";
  gzFile packed = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(packed, document.data(), static_cast<unsigned>(document.size())),
            static_cast<int>(document.size()));
  gzclose(packed);
  uint64_t told = 0;
  {
    Notes notes;
    InputFile file(path, [&](uint64_t bytes) { told += bytes; });
    read_json(file, "traceEvents", notes);
    EXPECT_EQ(std::count(notes.text.begin(), notes.text.end(), '{'), 200'001);
  }
  EXPECT_EQ(told, std::filesystem::file_size(path));
  std::filesystem::resize_file(path, told / 2);
  Notes notes;
  InputFile file(path, {});
  try {
    read_json(file, "traceEvents", notes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("t.json.gz, byte "), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("is truncated"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ddl::store
