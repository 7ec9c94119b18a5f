#include "runtime/model/stages.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/places.hpp"
#include "tests/support/two_streams.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
namespace tests = troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string split(std::int64_t layers, int stages, const uneven_ends& ends = {}) {
  const auto letters = gpt_letters(layers);
  return to_text(split_layers(letters, stages, ends), letters);
}

std::string refusal(std::string_view text, const unit_letters& letters, int stages) {
  try {
    return to_text(stages_from_text(text, letters, stages), letters);
  } catch (const input_error& failure) {
    return failure.what();
  }
}

std::string refusal(std::string_view text, std::int64_t layers, int stages) {
  return refusal(text, gpt_letters(layers), stages);
}

/// An encoder with an image embedding, a decoder, and two losses.
const unit_letters two_stacks
    = {{'I', 1}, {'e', 4, true}, {'n', 1}, {'E', 1}, {'t', 6, true}, {'m', 1, true}, {'L', 2}};

}  // namespace

TEST_CASE("stages are even unless their sizes or ends are given", "[stages]") {
  CHECK(split(8, 4) == "Et*2|t*2|t*2|t*2L");
  CHECK(split(1, 1) == "EtL");
  CHECK(split(10, 4, {.first = 1, .last = 3}) == "Et|t*3|t*3|t*3L");
  CHECK(split(9, 3, {.last = 1}) == "Et*4|t*4|tL");
  CHECK(split(8, 3, {.first = 0}) == "E|t*4|t*4L");
  CHECK(split(5, 2, {.first = 4, .last = 1}) == "Et*4|tL");
  CHECK(split(6, 4, {.embedding_counts = true, .loss_counts = true}) == "Et|t*2|t*2|tL");
  CHECK(split(7, 8, {.embedding_counts = true}) == "E|t|t|t|t|t|t|tL");
  CHECK(split(7, 8, {.loss_counts = true}) == "Et|t|t|t|t|t|t|L");
  CHECK_BREAKS("STAGES-1", split(0, 4));
}

TEST_CASE("an uneven split into stages is refused with a remedy", "[stages]") {
  CHECK_THROWS_WITH(split(10, 4),
                    ContainsSubstring("choose 5") && ContainsSubstring("layout.ends.first")
                        && ContainsSubstring("'Et*2|t*3|t*2|t*3L'"));
  CHECK_THROWS_WITH(split(8, 3, {.embedding_counts = true, .loss_counts = true}),
                    ContainsSubstring("+ 2 for embedding and loss"));
  CHECK_THROWS_WITH(split(10, 4, {.first = 2}),
                    ContainsSubstring("8 layers remain for 3 stages")
                        && ContainsSubstring("nearest valid: `layout.ends.first` 1;"));
  CHECK_THROWS_WITH(split(10, 4, {.last = 3}),
                    ContainsSubstring("nearest valid: `layout.ends.last` 4;"));
  CHECK_THROWS_WITH(split(10, 4, {.last = 11}),
                    ContainsSubstring("11 layers on 4 stages")
                        && ContainsSubstring("nearest valid: `layout.ends.last` 10;"));
  CHECK_THROWS_WITH(split(4, 2, {.first = 3, .last = 2}),
                    ContainsSubstring("nearest valid: `layout.ends.first` 2 and "
                                      "`layout.ends.last` 2;"));
  CHECK_THROWS_WITH(split(4, 1, {.first = 2, .last = 2}),
                    ContainsSubstring("4 layers on 1 stages"));
  CHECK_THROWS_WITH(split(4, 2, {.first = 2, .embedding_counts = true}),
                    ContainsSubstring("give one kind"));
}

TEST_CASE("a layout string has the same meaning as in megatron-core", "[stages][golden]") {
  const auto golden = nlohmann::json::parse(
      read_text(troupe::tests::source_dir() + "/tests/golden/layout/golden.json"));
  REQUIRE(golden["stages"].size() >= 7);
  for (const auto& c : golden["stages"]) {
    const auto text = c["text"].get<std::string>();
    const auto expected = c["stages"].get<std::vector<std::string>>();
    INFO(text);
    const auto count = [&](char letter) {
      std::int64_t n = 0;
      for (const auto& stage : expected)
        n += std::count(stage.begin(), stage.end(), letter);
      return n;
    };
    if (count('m') > 0) {
      CHECK_THAT(refusal(text, count('t'), int(expected.size())),
                 ContainsSubstring("(multi-token prediction) is not supported"));
      continue;
    }
    const auto stages = stages_from_text(text, gpt_letters(count('t')), int(expected.size()));
    REQUIRE(stages.size() == expected.size());
    const auto letters = gpt_letters(count('t'));
    std::int64_t unit = 0, layer = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      CHECK(stages[s].first == unit);
      unit = stages[s].end;
      CHECK(std::size_t(unit - stages[s].first) == expected[s].size());
      const auto n = std::count(expected[s].begin(), expected[s].end(), 't');
      CHECK(layers_in(stages[s], letters) == chunk_range{layer, layer + n});
      layer += n;
    }
    CHECK(unit == units_of(letters));
    CHECK(stages_from_text(to_text(stages, letters), letters, int(stages.size())) == stages);
  }
}

TEST_CASE("an error in a layout string is marked by a caret", "[stages]") {
  struct {
    const char* text;
    int layers, stages;
    const char* why;
    int column;
  } const cases[] = {
      {"Et|xL", 1, 2, "expected E embedding", 3},
      {"Et|t*L", 2, 2, "* needs a repeat count", 5},
      {"Et|t*0L", 2, 2, "from 1", 5},
      {"*2EtL", 2, 2, "this * has nothing before it", 0},
      {"Et*2*2|L", 4, 2, "this * has nothing before it", 4},
      {"E(t|t", 2, 2, "is not closed", 1},
      {"Et)|tL", 2, 2, "was not opened", 2},
      {"Ett|mL", 2, 2, "multi-token prediction", 4},
      {"tE|tL", 2, 2, "must begin with E", 0},
      {"|EttL", 2, 2, "must begin with E", 0},
      {"", 2, 1, "must begin with E", 0},
      {"Et|t", 2, 2, "must end with L", 3},
      {"EttL|", 2, 2, "must end with L", 4},
      {"EtE|tL", 2, 2, "one embedding", 2},
      {"EtL|tL", 2, 2, "one loss", 2},
      {"Et|tttL", 3, 2, "more layers than `model.layers` 3", 5},
      {"Et|tL", 3, 2, "2 layers up to here, of `model.layers` 3: write 1 more t", 4},
      {"Et|t|tL", 3, 2, "3 stages up to here, but `layout.pipeline` 2: give it 3", 6},
      {"Et|t|t|tL", 4, 2, "each rank one; give it 4", 8},
      {"E(t*1000)*2000L", 4, 2, "more than 1048576", 1},
      {"Et*99999999999999999999L", 4, 2, "repeat count", 3},
  };
  for (const auto& c : cases) {
    INFO(c.text);
    const auto said = refusal(c.text, c.layers, c.stages);
    CHECK_THAT(said, ContainsSubstring(c.why));
    CHECK_THAT(said,
               ContainsSubstring(std::string("\n    ") + c.text + "\n    "
                                 + std::string(std::size_t(c.column), ' ') + "^"));
  }
  CHECK(refusal("Et|*2tL", 2, 3) == "Et||tL");
  CHECK_THAT(refusal(std::string(40, '('), 1, 1), ContainsSubstring("16 deep"));
}

TEST_CASE("STAGES-2: a layout string has the letters of the model's units in order", "[stages]") {
  for (const auto* text : {"Ie*4nEt*3|t*3mL*2", "Ie|e*3|nEt|t*5mLL", "I|||e*4nEt*6mL*2"}) {
    const auto stages = int(std::count(text, text + std::string(text).size(), '|')) + 1;
    CHECK(to_text(stages_from_text(text, two_stacks, stages), two_stacks)
          == (std::string(text).ends_with("LL") ? "Ie|e*3|nEt|t*5mL*2" : text));
  }
  struct {
    const char* text;
    const char* why;
    int column;
  } const cases[] = {
      {"e*4nEt*6mLL", "must begin with I", 0},
      {"Ie*4nEt*6m", "must end with L", 9},
      {"Ie*4Et*6mLL", "n is unit 6 of the model 'Ie*4nEt*6mL*2', not E", 4},
      {"Ie*5nEt*6mLL", "n is unit 6 of the model 'Ie*4nEt*6mL*2', not e", 1},
      {"Ie*4nEt*6mL", "1 more units follow in the model", 10},
      {"Ie*4nEt*6mL*3", "the model 'Ie*4nEt*6mL*2' ends with this unit", 10},
      {"Ix", "expected I, e, n, E embedding, t layer, m, L loss, | next stage", 1},
  };
  for (const auto& c : cases) {
    INFO(c.text);
    const auto said = refusal(c.text, two_stacks, 1);
    CHECK_THAT(said, ContainsSubstring(c.why));
    CHECK_THAT(said,
               ContainsSubstring(std::string("\n    ") + c.text + "\n    "
                                 + std::string(std::size_t(c.column), ' ') + "^"));
  }
}

TEST_CASE("layers of all letters are split, and other units go with the layer after them",
          "[stages]") {
  const auto text = [](int stages, const uneven_ends& ends = {}) {
    return to_text(split_layers(two_stacks, stages, ends), two_stacks);
  };
  CHECK(text(1) == "Ie*4nEt*6mL*2");
  CHECK(text(11) == "Ie|e|e|e|nEt|t|t|t|t|t|mL*2");
  CHECK(text(3, {.first = 4, .last = 0}) == "Ie*4|nEt*6m|L*2");
  CHECK(text(3, {.first = 0, .last = 7}) == "I|e*4|nEt*6mL*2");
  CHECK(layers_in({6, 9}, two_stacks) == chunk_range{4, 6});
}

TEST_CASE("a model tells the letters of its units and which are layers", "[model]") {
  CHECK(gpt_spec(tests::tiny_gpt(3)).letters() == gpt_letters(3));
  CHECK(tests::two_streams().letters()
        == unit_letters{{'E', 1}, {'s', 1}, {'t', 2, true}, {'s', 1}, {'t', 1, true}, {'L', 1}});
}

TEST_CASE("MODEL-10: the letter of a unit is a letter", "[model]") {
  auto model = tests::two_streams();
  for (const char letter : {'|', '*', '(', ')', ',', '2', ' '}) {
    model.units.at(1).letter = letter;
    CHECK_BREAKS("MODEL-10", model.letters());
  }
}

TEST_CASE("the layers of each stage are counted, with or without multi-token prediction",
          "[model]") {
  CHECK(layers_of_stages("Et*3|(tt|)*2,m|L", "--layout")
        == std::vector<std::int64_t>{3, 2, 2, 1, 0});
  CHECK(layers_of_stages("t", "--layout") == std::vector<std::int64_t>{1});
  CHECK_THROWS_WITH(layers_of_stages("Et|x", "--layout"),
                    ContainsSubstring("--layout: expected E embedding")
                        && ContainsSubstring("    Et|x\n       ^"));
  CHECK_THROWS_WITH(layers_of_stages("E||L", "--layout"),
                    ContainsSubstring("no stage has a layer"));
  CHECK_THROWS_WITH(layers_of_stages("", "--layout"), ContainsSubstring("no stage has a layer"));
}
