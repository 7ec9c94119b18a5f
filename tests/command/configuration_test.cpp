#include "actors/command/configuration.hpp"

#include "actors/command/flags.hpp"
#include "actors/command/saved_configuration.hpp"
#include "actors/command/shell_words.hpp"
#include "runtime/data/utf8.hpp"
#include "runtime/family/gpt/gpt_asked.hpp"
#include "runtime/file/file.hpp"
#include "tests/command/given_flags.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/stat.h>
#include <thread>

using namespace troupe;
using namespace troupe::command;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A command with a flag of each kind.
struct some_flags {
  std::int64_t n = 1;
  double x = 0.1;
  std::string choice = "a", name;
  std::vector<std::string> list;
  std::vector<std::int64_t> three;
  bool on = false, other = false;
  command_line line{"troupe x", ""};

  some_flags() {
    line.configurable();
    line.group("Numbers");
    line.value("--n", "N", "A number.", whole(n, 1, 100));
    line.value("--real_x", "X", "Another.", real(x, real_range{}));
    line.group("Words");
    line.value("--choice", "C", "A or b.", one_of(choice, {"a", "b"}));
    line.value("--name", "TEXT", "Any.", text(name));
    line.values("--list", "WORD", 1, 100, "Several.", all(list));
    line.values("--three", "A B C", 3, 3, "Three.", [this](const auto& flag, const auto& words) {
      three.clear();
      for (const auto& word : words)
        three.push_back(parse_whole(flag, word, {0, 9}));
    });
    line.toggle("--on", "On.", [this] { on = true; });
    line.toggle("--other", "Other.", [this] { other = true; });
    line.accepted("--quiet", 1, "nothing to say");
    line.refused("--never", "it is never right; leave it out");
    line.refused_family("--odd-", "nothing odd is here");
    line.runs([] { return 0; });
  }
};

struct file_of {
  tests::scratch_folder folder;
  std::string path;

  explicit file_of(const std::string& text) : path((folder.path() / "c.yaml").string()) {
    runtime::write_text(path, text);
  }
};

std::string refusal(const std::string& text) {
  const file_of file(text);
  some_flags x;
  try {
    x.line.parse({"--config", file.path});
  } catch (const usage_error& failure) {
    return failure.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a configuration has the same effect as flags", "[command]") {
  const file_of file(
      "# a comment\nn: 7\nreal-x: 2.5e-1\nchoice: b\nname: \"- odd: #1\"\nlist: [a, 'b c']\n"
      "three:\n  - 1\n  - 2\n  - 3\non: true\nother: false\nquiet: 3\n");
  some_flags x;
  x.line.parse({"--config", file.path});
  CHECK(x.n == 7);
  CHECK(x.x == 0.25);
  CHECK(x.choice == "b");
  CHECK(x.name == "- odd: #1");
  CHECK(x.list == std::vector<std::string>{"a", "b c"});
  CHECK(x.three == std::vector<std::int64_t>{1, 2, 3});
  CHECK(x.on);
  CHECK_FALSE(x.other);
}

TEST_CASE("underscores and dashes are the same in a key", "[command]") {
  for (const auto* key : {"real_x", "real-x"}) {
    const file_of file(std::string(key) + ": 3\n");
    some_flags x;
    x.line.parse({"--config", file.path});
    CHECK(x.x == 3);
  }
}

TEST_CASE("the command line overrides configurations, and later ones override earlier ones",
          "[command]") {
  const file_of first("n: 2\non: true\nother: true\nlist: [a, b]\nchoice: b\n");
  const file_of second("n: 3\nother: false\n");
  some_flags x;
  x.line.parse({"--n", "4", "--config", first.path, second.path, "--list", "c"});
  CHECK(x.n == 4);
  CHECK(x.list == std::vector<std::string>{"c"});
  CHECK(x.choice == "b");
  CHECK(x.on);
  CHECK_FALSE(x.other);

  some_flags y;
  y.line.parse({"--config", first.path, "--config", second.path, "--on=false"});
  CHECK(y.n == 3);
  CHECK_FALSE(y.on);
}

TEST_CASE("a flag of the command line overrides its other name in a configuration", "[command]") {
  const file_of file("use-rotary-position-embeddings: true\n");
  training_flags flags;
  command_line line("troupe train gpt", "");
  declare(line, flags);
  line.runs([] { return 0; });
  line.parse({"--position-embedding-type", "none", "--config", file.path});
  CHECK(std::any_cast<const runtime::gpt_asked&>(flags.model).position == "none");
}

TEST_CASE("errors in a configuration have file, line and column", "[command]") {
  CHECK_THAT(refusal("n: 1\nn: 2\n"), ContainsSubstring("line 2, column 1: 'n' is given twice"));
  CHECK_THAT(refusal("real-x: 1\nreal_x: 2\n"), ContainsSubstring("given twice"));
  CHECK_THAT(refusal("n: 1\nchoise: a\n"),
             ContainsSubstring("c.yaml', line 2, column 9: --choise is not a flag of 'troupe x'; "
                               "did you mean --choice?"));
  CHECK_THAT(refusal("n: many\n"),
             ContainsSubstring("line 1, column 4: --n 'many': give a whole number from 1 to 100"));
  CHECK_THAT(refusal("n: 1.5\n"), ContainsSubstring("give a whole number"));
  CHECK_THAT(refusal("n: [1]\n"), ContainsSubstring("takes one value, but this is a list"));
  CHECK_THAT(refusal("on: yes\n"), ContainsSubstring("give true or false"));
  CHECK_THAT(refusal("on: [true]\n"), ContainsSubstring("takes one value"));
  CHECK_THAT(refusal("three: 1\n"), ContainsSubstring("write them as a list"));
  CHECK_THAT(refusal("three: [1, 2]\n"), ContainsSubstring("needs 3 values"));
  CHECK_THAT(refusal("three: [1, 2, 3, 4]\n"), ContainsSubstring("needs 3 values"));
  CHECK_THAT(refusal("list: []\n"), ContainsSubstring("needs 1 values"));
  CHECK_THAT(refusal("list: [[a]]\n"), ContainsSubstring("a list in a list"));
  CHECK_THAT(refusal("choice: c\n"), ContainsSubstring("give one of a, b"));
  CHECK_THAT(refusal("never: 1\n"), ContainsSubstring("is refused: it is never right"));
  CHECK_THAT(refusal("odd-thing: 1\n"), ContainsSubstring("is refused: nothing odd"));
  CHECK_THAT(refusal("--n: 1\n"), ContainsSubstring("leave out the dashes"));
  CHECK_THAT(refusal("config: other.yaml\n"), ContainsSubstring("cannot include another"));
}

TEST_CASE("YAML features without a meaning here are refused", "[command]") {
  CHECK_THAT(refusal("n: ~\n"), ContainsSubstring("line 1, column 4: 'n' has no value"));
  CHECK_THAT(refusal("n:\n"), ContainsSubstring("'n' has no value"));
  CHECK_THAT(refusal("list: [a, null]\n"), ContainsSubstring("'list' has no value"));
  CHECK_THAT(refusal("model:\n  n: 1\n"),
             ContainsSubstring("line 2, column 3: 'model' has keys below it"));
  CHECK_THAT(refusal("n: &a 1\n"), ContainsSubstring("anchors are not supported"));
  CHECK_THAT(refusal("n: *a\n"), ContainsSubstring("line 1, column"));
  CHECK_THAT(refusal("n: !!int 1\n"), ContainsSubstring("the tag"));
  CHECK_THAT(refusal("!!binary bg==: 1\n"), ContainsSubstring("the tag"));
  CHECK_THAT(
      refusal("name: !!binary a/b\n"),
      ContainsSubstring("line 1, column 7: 'a/b' is not valid base64; !!binary needs base64"));
  CHECK_THAT(refusal("name: !!binary YQBi\n"), ContainsSubstring("the value has a zero byte"));
  for (const auto* text : {"n: a\xEF\xBB\xBF\n", "n: \"\\uFFFF\"\n", "n: \"\\U0001FFFE\"\n"})
    CHECK_THAT(refusal(text), ContainsSubstring("is not a character"));
  CHECK_THAT(refusal("- n\n"), ContainsSubstring("lines of the form flag: value"));
  CHECK_THAT(refusal("n\n"), ContainsSubstring("lines of the form flag: value"));
  CHECK_THAT(refusal("n: 1\n---\nn: 2\n"), ContainsSubstring("a second document"));
  CHECK_THAT(refusal("n: \"\\q\"\n"), ContainsSubstring("this is not YAML"));
  CHECK_THAT(refusal("n: 1\n  choice: a\n"), ContainsSubstring("line 2"));
  CHECK_THAT(refusal("? [a]\n: 1\n"), ContainsSubstring("a list cannot be a key"));
  CHECK_THAT(refusal("~: 1\n"), ContainsSubstring("a key is empty"));
  CHECK_THAT(refusal(std::string("n: 1\0\n", 6)), ContainsSubstring("byte 4 is wrong"));
  CHECK_THAT(refusal("name: caf\xe9\n"), ContainsSubstring("is not UTF-8 text"));
  CHECK_THAT(refusal("name: \"a\\0b\"\n"),
             ContainsSubstring("an escape in the value is not valid text"));
  CHECK_THAT(refusal("name: \"a\\_b\"\n"),
             ContainsSubstring("an escape in the value is not valid text"));
  CHECK_THAT(refusal("list: " + std::string(100000, '[')), ContainsSubstring("line 1"));
  CHECK_THAT(refusal("# " + std::string(1 << 20, 'x') + "\n"),
             ContainsSubstring("at most 1048576"));
  CHECK(refusal("") == "accepted");
  CHECK(refusal("# nothing\n") == "accepted");
}

TEST_CASE("settings survive writing and reading as YAML", "[command]") {
  some_flags x;
  const std::vector<std::string> odd = {"",
                                        "~",
                                        "a: b",
                                        "#",
                                        "true",
                                        "[",
                                        "é",
                                        "- x",
                                        "a\rb",
                                        "a\nb",
                                        "sav\xff/1",
                                        "\xEF\xBB\xBF",
                                        "\xed\xa0\x80"};
  x.line.parse({"--name", "it's \"so\": #1",
                "--on",   "--three",
                "1",      "2",
                "3",      "--real_x",
                "1e-300", "--list",
                odd[0],   odd[1],
                odd[2],   odd[3],
                odd[4],   odd[5],
                odd[6],   odd[7],
                odd[8],   odd[9],
                odd[10],  odd[11],
                odd[12]});
  const auto text = configuration_text(x.line.settings(), {"About."});
  INFO(text);
  CHECK_THAT(text,
             ContainsSubstring("# About.\n") && ContainsSubstring("# Numbers\n")
                 && ContainsSubstring("n: 1\n"));
  CHECK(runtime::first_invalid_utf8(text) == std::string::npos);
  const file_of file(text);
  some_flags y;
  y.line.parse({"--config", file.path});
  CHECK(y.name == x.name);
  CHECK(y.list == odd);
  CHECK(y.three == x.three);
  CHECK(y.x == 1e-300);
  CHECK(y.on);
  CHECK_FALSE(y.other);
  CHECK(configuration_text(y.line.settings(), {"About."}) == text);
}

TEST_CASE("a line break in a comment does not add a setting", "[command]") {
  some_flags x;
  x.line.parse({"--n", "3"});
  const auto text = configuration_text(x.line.settings(), {"Again: 'a\nn: 5\rn: 6'"});
  INFO(text);
  some_flags y;
  const file_of file(text);
  y.line.parse({"--config", file.path});
  CHECK(y.n == 3);
}

TEST_CASE("bytes that are not text are escaped for a shell", "[command]") {
  CHECK(for_shell("caf\xc3\xa9 1") == "'caf\xc3\xa9 1'");
  CHECK(for_shell("caf\xe9's") == "$'caf\\xe9\\'s'");
  CHECK(for_shell("a\n") == "$'a\\x0a'");
}

TEST_CASE("an error names at most 1000 unknown keys", "[command][unsanitized]") {
  std::string text;
  for (int i = 0; i < 4000; ++i)
    text += fmt::format("key{}: 1\n", i);
  const file_of file(text);
  training_flags flags;
  command_line line("troupe train gpt", "");
  declare(line, flags);
  line.runs([] { return 0; });
  CHECK_THROWS_WITH(line.parse({"--config", file.path}),
                    ContainsSubstring("at least 1000 flags cannot be used")
                        && ContainsSubstring("line 1000,") && !ContainsSubstring("line 1001,"));
}

TEST_CASE("a new configuration does not overwrite a kept one", "[command]") {
  const tests::scratch_folder folder;
  const auto read = [&](const char* name) { return runtime::read_text(folder.path() / name); };
  const auto part = folder / "config.yaml.partial-7";  // left by a killed process
  runtime::write_text(part, "n: ");
  save_configuration(folder.path(), "n: 1\n");
  CHECK_FALSE(exists(part));
  CHECK(read("config.yaml") == "n: 1\n");
  save_configuration(folder.path(), "# the same\nn: 1\n");
  CHECK(read("config.yaml") == "n: 1\n");
  save_configuration(folder.path(), "n: 2\n");
  save_configuration(folder.path(), "n: 3\n");
  CHECK(read("config.yaml") == "n: 3\n");
  CHECK(read("config.1.yaml") == "n: 1\n");
  CHECK(read("config.2.yaml") == "n: 2\n");
}

TEST_CASE("resolved settings are written and give the same job again", "[command]") {
  const std::string model
      = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
        "--micro-batch-size 2 --lr 1e-3 --mock-data --tokenizer-type NullTokenizer "
        "--vocab-size 1000 ";
  const std::string more = GENERATE(
      as<std::string>(),
      "--train-iters 100 --world-size 4 --swiglu --group-query-attention",
      "--train-samples 1000 --rampup-batch-size 4 4 96 --global-batch-size 16 "
      "--lr-warmup-samples 40 --no-position-embedding",
      "--train-iters 100 --position-embedding-type yarn --rotary-scaling-factor 4 --mscale 0.7 "
      "--no-yarn-correction-range-round-to-int --normalization RMSNorm",
      "--train-iters 100 --use-rotary-position-embeddings --use-rope-scaling --qk-layernorm "
      "--window-size (7,0) --lr-decay-style cosine --lr-warmup-fraction 0.1",
      "--train-iters 9 --num-experts 4 --disable-bias-linear --moe-router-topk 1 "
      "--moe-router-pre-softmax --moe-aux-loss-coeff 0.01 --moe-layer-freq [0,1]*2",
      "--train-iters 9 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "
      "Et|tttL --recompute-granularity selective --recompute-modules core_attn mlp --bf16 "
      "--world-size 4 --use-distributed-optimizer --overlap-grad-reduce --ddp-bucket-size 999",
      "--train-iters 9 --tensor-model-parallel-size 2 --sequence-parallel --eval-iters 0 "
      "--recompute-granularity full --recompute-method block --recompute-num-layers 2 "
      "--plant-delays 1,2,3 --init-method-std 0.0134 --adam-beta2 0.95 --seed 7");
  CAPTURE(more);
  std::istringstream in(model + more);
  const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  training_flags flags;
  command_line line("troupe train gpt", "");
  declare(line, flags);
  line.runs([] { return 0; });
  line.parse(words);
  const auto job = resolve(flags);
  write_back(job, flags);
  const auto text = configuration_text(line.settings(), {});
  INFO(text);
  for (const auto* decided : {"threads-per-worker: ",
                              "global-batch-size: ",
                              "ffn-hidden-size: ",
                              "seed: ",
                              "adam-beta1: 0.9\n",
                              "lr-decay-"})
    CHECK_THAT(text, ContainsSubstring(decided));
  const file_of file(text);
  const auto again = training_job_from({"--config", file.path});
  CHECK(runtime::identity(again) == runtime::identity(job));
  CHECK(again.recompute == job.recompute);
  CHECK(again.reduction.bucket_size == job.reduction.bucket_size);
  CHECK(again.faults.message_delay_us == job.faults.message_delay_us);
}

TEST_CASE("flags of a single start are not kept", "[command]") {
  const tests::scratch_folder folder;
  training_flags flags;
  command_line line("troupe train gpt", "");
  declare(line, flags);
  line.runs([] { return 0; });
  const auto trace = (folder.path() / "trace.json").string();
  auto words = tests::words_of(tests::small_run
                               + "--quiet --exit-interval 3 --exit-duration-in-mins 5 "
                                 "--plant-delays 1,2,3 --no-progress --log-level error --log-interval 7 --trace "
                               + trace);
  line.parse(words);
  write_back(resolve(flags), flags);
  const auto text = configuration_text(kept_settings(line, flags), {});
  INFO(text);
  for (const auto* one : {"quiet:",
                          "exit-interval:",
                          "exit-duration",
                          "no-progress:",
                          "trace:",
                          "log-level:",
                          "plant-"})
    CHECK_THAT(text, !ContainsSubstring(one));
  CHECK_THAT(text, ContainsSubstring("log-interval: 7\n"));
}

TEST_CASE("a configuration can come from a pipe", "[command]") {
  const tests::scratch_folder folder;
  const auto pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(pipe) << "n: 9\n"; });
  some_flags x;
  x.line.parse({"--config", pipe});
  writer.join();
  CHECK(x.n == 9);
}
