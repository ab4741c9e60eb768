// Forms in which secrets stand in arguments: none is told, and what is beside them stays readable. The secret of every case is kSecret.
#include <gtest/gtest.h>

#include "cli/job_file.h"
#include "core/secrets.h"
#include "store/text.h"

namespace ddl::cli {
namespace {

using Words = std::vector<std::string>;

const char* const kSecret = "hush4Hush";

struct Form {
  Words command;
  const char* readable;  ///< must stand in what is shown
};

const Form kForms[] = {
    // Options and settings.
    {{"--password=hush4Hush"}, "--password="},
    {{"--password", "hush4Hush"}, "--password"},
    {{"--auth=hush4Hush"}, "--auth="},
    {{"--pass=hush4Hush"}, "--pass="},
    {{"--pwd", "hush4Hush", "--steps=5"}, "--steps=5"},
    {{"--credential", "hush4Hush"}, "--credential"},
    {{"--credentials=hush4Hush"}, ""},
    {{"--passphrase", "hush4Hush"}, "--passphrase"},
    {{"--session-cookie=hush4Hush"}, "--session-cookie="},
    {{"--hub-token", "hush4Hush"}, "--hub-token"},
    {{"--hub_token=hush4Hush"}, "--hub_token="},
    {{"--api-key=hush4Hush"}, "--api-key="},
    {{"--apikey", "hush4Hush"}, "--apikey"},
    {{"--apiKey=hush4Hush"}, "--apiKey="},
    {{"--accessToken=hush4Hush"}, ""},
    {{"--aws-secret-access-key=hush4Hush"}, ""},
    {{"-password", "hush4Hush"}, "-password"},
    {{"-token=hush4Hush"}, "-token="},
    {{"-x", "API_KEY=hush4Hush", "-np", "2"}, "-np"},
    {{"-x", "PGPASSWORD=hush4Hush"}, "PGPASSWORD="},
    {{"-x", "MYSQL_PWD=hush4Hush"}, "MYSQL_PWD="},
    {{"--env", "WANDB_APIKEY=hush4Hush"}, "WANDB_APIKEY="},
    {{"--export=ALL,HF_TOKEN=hush4Hush"}, "--export=ALL"},
    {{"PASSWORD=hush4Hush"}, "PASSWORD="},
    {{"--password=a,b;c d&hush4Hush"}, "--password="},
    {{"--client-secret", "hush4Hush"}, "--client-secret"},
    {{"--jwt=hush4Hush"}, "--jwt="},
    {{"--pin=hush4Hush"}, "--pin="},
    {{"--signature=hush4Hush"}, ""},
    {{"--oauth2-bearer", "hush4Hush"}, "--oauth2-bearer"},
    {{"-u", "user:hush4Hush"}, "user:"},
    {{"--proxy-user", "me:hush4Hush"}, "me:"},
    // Dotted names, as Hydra and OmegaConf take them.
    {{"trainer.password=hush4Hush"}, "trainer.password="},
    {{"+trainer.password=hush4Hush"}, "+trainer.password="},
    {{"++logger.wandb.api_key=hush4Hush"}, "++logger.wandb.api_key="},
    {{"db[0].password=hush4Hush", "x=1"}, "x=1"},
    {{"+logger={api_key:hush4Hush,name:run1}"}, "name:run1"},
    {{"--set", "auth.token=hush4Hush"}, "auth.token="},
    // URLs.
    {{"https://u:hush4Hush@example.org/data?x=1"}, "example.org/data?x=1"},
    {{"postgresql://u:hush4Hush@db.example.org:5432/train"}, "db.example.org:5432/train"},
    {{"--dsn=postgresql://u:hush4Hush@h/db"}, "@h/db"},
    {{"redis://:hush4Hush@cache:6379/0"}, "cache:6379/0"},
    {{"mysql+pymysql://u:hush4Hush@h/db"}, "@h/db"},
    {{"https://u:p@hush4Hush@h/"}, "@h/"},
    {{"https://u:p/hush4Hush@h/"}, "@h/"},
    {{"s3://AKIAIOSFODNN7EXAMPLE:hush4Hush@bucket/x"}, "bucket/x"},
    {{"https://h/data?token=hush4Hush&x=1"}, "x=1"},
    {{"https://h/data?x=1&X-Amz-Signature=hush4Hush"}, "x=1"},
    {{"https://blob.example.net/c?sv=2020&sig=hush4Hush&se=1"}, "sv=2020"},
    {{"https://h/?api_key=hush4Hush#part"}, "#part"},
    {{"git+https://oauth2:hush4Hush@gitlab.example.org/a.git"}, "gitlab.example.org/a.git"},
    {{"--index-url=https://u:hush4Hush@pypi.example.org/simple"}, "pypi.example.org/simple"},
    // Headers.
    {{"--header", "Authorization: Bearer hush4Hush"}, "Authorization: "},
    {{"--header=Authorization: Basic hush4Hush"}, "--header="},
    {{"-H", "X-Api-Key: hush4Hush"}, "X-Api-Key: "},
    {{"-H", "Cookie: id=1; session=hush4Hush"}, "Cookie: "},
    {{"--header", "Authorization:", "Bearer", "hush4Hush", "--steps=5"}, "--steps=5"},
    {{"--auth-scheme", "Bearer hush4Hush"}, ""},
    {{"-H", "Proxy-Authorization: Digest a, hush4Hush"}, "Proxy-Authorization: "},
    // Text within an argument: JSON, YAML, shell and Python.
    {{"{\"user\": \"me\", \"password\": \"hush4Hush\", \"steps\": 5}"}, "\"steps\": 5"},
    {{"--config={\"apiKey\":\"hush4Hush\",\"lr\":0.1}"}, "\"lr\":0.1"},
    {{"{'token': 'hush4Hush', 'lr': 0.1}"}, "'lr': 0.1"},
    {{"{\\\"password\\\": \\\"hush4Hush\\\", \\\"lr\\\": 1}"}, "lr"},
    {{"{\"secrets\": {\"a\": \"hush4Hush\"}}"}, "secrets"},
    {{"{\"passwords\": [\"hush4Hush\", \"hush4Hush\"]}"}, "passwords"},
    {{"--headers={\"Authorization\": \"Bearer hush4Hush\", \"a\": \"b\"}"}, "\"a\": \"b\""},
    {{"user: me\npassword: hush4Hush\nsteps: 5"}, "steps: 5"},
    {{"bash", "-c", "export TOKEN=hush4Hush; ./train --steps 5"}, "./train --steps 5"},
    {{"bash", "-c", "./train --password hush4Hush --steps 5"}, "--steps 5"},
    {{"bash", "-c", "curl -H 'Authorization: Bearer hush4Hush' https://h/"}, "https://h/"},
    {{"python", "-c", "login(token='hush4Hush', name='x')"}, "name='x'"},
    {{"python", "-c", "os.environ[\"API_KEY\"] = \"hush4Hush\"; train()"}, "train()"},
    {{"--mca", "mca_base_env_list", "A;API_KEY=hush4Hush;LD_PRELOAD"}, "mca_base_env_list"},
    {{"ssh://u:hush4Hush@node1", "--nodes=2"}, "--nodes=2"},
    {{"jdbc:postgresql://h/db?user=me&password=hush4Hush"}, "user=me"},
    {{"Endpoint=sb://x;SharedAccessKey=hush4Hush;EntityPath=y"}, "EntityPath=y"},
    {{"DefaultEndpointsProtocol=https;AccountKey=hush4Hush;Suffix=net"}, "Suffix=net"},
};

std::string shown(const Words& command) {
  std::string text;
  for (const std::string& word : without_secrets(command)) text += word + " ";
  return text;
}

TEST(Secrets, NoneOfManyForms) {
  EXPECT_GE(std::size(kForms), 76u);
  for (const Form& form : kForms) {
    const std::string text = shown(form.command);
    EXPECT_EQ(text.find(kSecret), std::string::npos) << text;
    EXPECT_NE(text.find("***"), std::string::npos) << text;
    EXPECT_NE(text.find(form.readable), std::string::npos) << text << " lacks " << form.readable;
  }
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
    for (const std::string& text : {token, "--x=" + token, "run-" + token, "https://" + token + "@github.com/a/b", "a b " + token + " c"}) {
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
  for (const char* name :
       {"WANDB_API_KEY", "SLURM_JWT", "OMPI_SECRET", "NCCL_AUTH_TOKEN", "PBS_password", "HOROVOD_SECRET_KEY", "OMPI_PGPASSWORD"})
    EXPECT_FALSE(is_recorded_variable(name)) << name;
  const char* environment[] = {"UCX_PROXY=http://u:hush4Hush@proxy:3128", "OMPI_MCA_x=API_KEY=hush4Hush", nullptr};
  const std::string json = to_json(describe_job({"./a"}, environment));
  EXPECT_EQ(json.find(kSecret), std::string::npos) << json;
  EXPECT_NE(json.find("proxy:3128"), std::string::npos) << json;
}

/// Whatever the bytes are: it ends, reads nothing beyond, and puts no more than it was given and the stars.
TEST(Secrets, AnyBytes) {
  uint64_t state = 1;
  const std::string pieces[] = {"password", "=",  ":", "\"", "'",       "\\",      "{", "}",   " ",   "://",           "@",
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
