// Forms in which secrets stand in arguments: none is told, and what is beside them stays readable. The secret of
// every case is kSecret.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "autotuner/emit.h"
#include "autotuner/emitted.h"
#include "cli/job_file.h"
#include "core/secrets.h"
#include "store/text.h"
#include "tests/autotuner/tuned_samples.h"

namespace ddl::cli {
namespace {

using Words = std::vector<std::string>;

const char* const kSecret = "hush4Hush";

struct Form {
  Words command;
  std::string readable;  ///< must stand in what is shown
};

/// Also of tests/autotuner/tune_guards.py.
std::vector<Form> forms() {
  std::vector<Form> result;
  std::ifstream file(std::string(DDL_SOURCE_DIR) + "/tests/cli/secret_forms.json");
  const nlohmann::json kinds = nlohmann::json::parse(file);
  for (const auto& [kind, list] : kinds.items())
    for (const auto& form : list) result.push_back({form.at("command"), form.at("readable")});
  return result;
}

std::string shown(const Words& command) {
  std::string text;
  for (const std::string& word : without_secrets(command)) text += word + " ";
  return text;
}

TEST(Secrets, NoneOfManyForms) {
  EXPECT_GE(forms().size(), 77u);
  for (const Form& form : forms()) {
    const std::string text = shown(form.command);
    EXPECT_EQ(text.find(kSecret), std::string::npos) << text;
    EXPECT_NE(text.find("***"), std::string::npos) << text;
    EXPECT_NE(text.find(form.readable), std::string::npos) << text << " lacks " << form.readable;
  }
}

/// Whether the tuned command is in the files, as where something was gained, or the default is kept.
TEST(Secrets, NoneInWhatIsEmitted) {
  std::string name = (std::filesystem::temp_directory_path() / "ddl-secrets-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  tune::Tuned tuned = tune::tuned_sample();
  tuned.command = {"./train"};
  for (const Form& form : forms()) {
    tuned.command.insert(tuned.command.end(), form.command.begin(), form.command.end());
    tuned.command.push_back("and");  // some forms end with an option that would take the next one's first word
  }
  tuned.tuned_command = tuned.command;
  ASSERT_TRUE(tuned.gain);
  for (const bool gained : {true, false}) {
    if (!gained) tuned.gain.reset();
    tune::emit(tuned, name);
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(name)) {
      std::ifstream file(entry.path(), std::ios::binary);
      std::ostringstream text;
      text << file.rdbuf();
      EXPECT_EQ(text.str().find(kSecret), std::string::npos) << entry.path();
      ++files;
    }
    EXPECT_GE(files, 13u);
    const tune::Emitted emitted = tune::read_emitted(name);
    EXPECT_EQ(emitted.tuned.command, without_secrets(tuned.command));
    EXPECT_EQ(emitted.tuned.tuned_command, without_secrets(tuned.command));
  }
  std::filesystem::remove_all(name);
}

TEST(Secrets, TokensOfKnownShape) {
  const char* const tokens[] = {"ghp_abcdefghijklmnopqrstuvwxyz0123456789",
                                "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuv",
                                "sk-proj-abcdefghij0123456789",
                                "sk_live_abcdefghij0123456789",
                                "hf_abcdefghijklmnopqrstuvwxyZ012345",
                                "AKIAIOSFODNN7EXAMPLE",
                                "AIzaSyA1234567890abcdefghijklmnopqrstuv",
                                "xoxb-123456789012-abcdefghij",
                                "glpat-abcdefghij0123456789",
                                "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
                                "nvapi-abcdefghij0123456789ABCDEF",
                                "npm_abcdefghijklmnopqrstuvwxyz0123456789"};
  for (const std::string token : tokens) {
    for (const std::string& text :
         {token, "--x=" + token, "run-" + token, "https://" + token + "@github.com/a/b", "a b " + token + " c"}) {
      const std::string told = without_secrets(text);
      EXPECT_EQ(told.find(token.substr(token.size() - 12)), std::string::npos) << told;
    }
  }
  const std::string key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----";
  EXPECT_EQ(without_secrets(key).find("b3Bl"), std::string::npos);
}

TEST(Secrets, OrdinaryArgumentsStayReadable) {
  const Words words = {"mpirun",
                       "-np",
                       "2",
                       "--mca",
                       "btl",
                       "tcp,self",
                       "--map-by",
                       "slot:PE=2",
                       "./train",
                       "--steps",
                       "50",
                       "--max-tokens",
                       "512",
                       "--tokenizer=gpt2",
                       "--eos-token",
                       "</s>",
                       "--pad_token=[PAD]",
                       "--num-keys=4",
                       "--key-size",
                       "128",
                       "--sort-key=step",
                       "--pin-memory",
                       "1",
                       "--passes=3",
                       "--pass-through",
                       "x",
                       "--author=me",
                       "--bypass=1",
                       "--monkey=1",
                       "--keyboard=de",
                       "--key-file=/etc/key.pem",
                       "--token-bucket-size=5",
                       "https://example.org:8080/a?b=c",
                       "tcp://node01:1234,node02:1234",
                       "http://[::1]:8080/x",
                       "ssh://git@example.org/a.git",
                       "--user",
                       "1000:1000",
                       "a@b.org",
                       "model.layers[0].key_dim=64",
                       "optimizer.lr=0.1",
                       "+trainer=ddp",
                       "{\"lr\": 0.1, \"max_tokens\": 5}",
                       "2024-11-24T10:00:00",
                       "sk-learn",
                       "ghp_",
                       "C:/a",
                       "--forward-pass=2",
                       "task-basic",
                       "--bearing=5",
                       "file:///data/x",
                       "--compass=n",
                       "hf_hub",
                       "eyJ",
                       "--secretary-free"};
  const Words told = without_secrets(words);
  ASSERT_EQ(told.size(), words.size());
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] != "--secretary-free") {
      EXPECT_EQ(told[i], words[i]);
    }
}

TEST(Secrets, OneListForVariablesAndArguments) {
  for (const char* name : {"WANDB_API_KEY", "SLURM_JWT", "OMPI_SECRET", "NCCL_AUTH_TOKEN", "PBS_password",
                           "HOROVOD_SECRET_KEY", "OMPI_PGPASSWORD"})
    EXPECT_FALSE(is_recorded_variable(name)) << name;
  const char* environment[] = {"UCX_PROXY=http://u:hush4Hush@proxy:3128", "OMPI_MCA_x=API_KEY=hush4Hush", nullptr};
  const std::string json = to_json(describe_job({"./a"}, environment));
  EXPECT_EQ(json.find(kSecret), std::string::npos) << json;
  EXPECT_NE(json.find("proxy:3128"), std::string::npos) << json;
}

/// Whatever the bytes are: it ends, reads nothing beyond, and puts no more than it was given and the stars.
TEST(Secrets, AnyBytes) {
  uint64_t state = 1;
  const std::string pieces[] = {
      "password", "=",  ":", "\"", "'",       "\\",      "{", "}",   " ",   "://",           "@",
      "/",        "?",  "&", "-",  "--token", "Bearer ", "x", "sk-", "eyJ", "Authorization", "[",
      "]",        "\n", ",", ";",  "+",       "\xff",    "#", "hush"};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text += pieces[(state >> 33) % std::size(pieces)];
    }
    const std::string once = without_secrets(text);
    EXPECT_LE(once.size(), text.size() * 3 + 3);
    without_secrets(Words{text, text});
  }
}

}  // namespace
}  // namespace ddl::cli
