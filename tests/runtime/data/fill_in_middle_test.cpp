#include "runtime/data/fill_in_middle.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/places.hpp"
#include "tests/support/sample_row.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

using ids = std::vector<std::int32_t>;

const nlohmann::json& golden_fim() {
  static const auto all
      = nlohmann::json::parse(read_text(source_dir() + "/tests/golden/data/fim.json"));
  return all;
}

/// A tokenizer with the special tokens of Megatron-LM's defaults, from 258 on.
std::shared_ptr<const tokenizer> fim_tokenizer() {
  return std::make_shared<byte_tokenizer>("th",
                                          golden_fim()["names"].get<std::vector<std::string>>());
}

constexpr std::int32_t eod = 258, prefix_id = 259, middle_id = 260, suffix_id = 261, pad_id = 262;

fim_settings always(double spm_rate) {
  fim_settings out;
  out.enabled = true;
  out.rate = 1;
  out.spm_rate = spm_rate;
  return out;
}

ids of(std::string_view text) {
  return fim_tokenizer()->encode(text);
}

std::string text_of(std::span<const std::int32_t> x) {
  return fim_tokenizer()->decode(x);
}

/// The text after `from`, up to the next special token.
std::string after(const ids& x, std::int32_t from) {
  const auto begin = std::ranges::find(x, from) + 1;
  return text_of({begin, std::find_if(begin, x.end(), [](auto id) { return id >= eod; })});
}

/// A source in which every fifth document is empty.
class empty_documents final : public token_source {
 public:
  std::int64_t sequences() const override { return 40; }
  std::int32_t length(std::int64_t) const override { return 5; }
  void get(std::int64_t, std::int64_t offset, std::span<std::int32_t> out) const override {
    static constexpr std::int32_t all[] = {'a', eod, eod, 'b', eod};
    std::copy_n(all + offset, out.size(), out.begin());
  }
  std::string place(std::int64_t) const override { return "a document"; }
};

}  // namespace

TEST_CASE("fill-in-the-middle samples equal those of a reference implementation in numpy",
          "[data][golden]") {
  for (const auto& c : golden_fim()["cases"]) {
    fim_settings settings;
    settings.rate = c["rate"];
    settings.spm_rate = c["spm_rate"];
    settings.split_sample = c["split"].get<bool>() ? "<file>" : "";
    settings.fragment_rate = c["fragment_rate"];
    settings.no_prefix = c["no_prefix"];
    const fill_in_middle fim(settings, fim_tokenizer(), golden_fim()["seed"]);
    for (std::size_t i = c["samples"].size(); i-- > 0;) {  // independent of earlier reads
      const auto& one = c["samples"][i];
      auto text = one["in"].get<ids>();
      INFO("rate " << settings.rate << ", spm " << settings.spm_rate << ", sample " << i);
      CHECK(fim.apply(i, text) == one["used"]);
      CHECK(text == one["out"].get<ids>());
    }
  }
}

TEST_CASE("a Bernoulli draw equals numpy's binomial(1, p)", "[data][golden]") {
  numpy_random_state random(golden_fim()["seed"]);
  for (const auto& row : golden_fim()["draws"])
    for (const int expected : row[1])
      CHECK(random.bernoulli(row[0]) == (expected == 1));
}

TEST_CASE("tokens between fragments all stay", "[data]") {
  auto settings = always(0);
  settings.split_sample = "<|endoftext|>";
  settings.eod_token = "<fim-pad>";
  settings.pad_token = "th";
  settings.fragment_rate = 0;  // so a document stays unchanged
  const fill_in_middle fim(settings, fim_tokenizer(), 1);
  for (const ids& document : {ids{'a', eod, 'b'},
                              ids{eod, 'a', 'b'},
                              ids{'a', eod, eod, 'b'},
                              ids{eod, eod, 'a', eod, eod},
                              ids{'a', eod, eod, eod, 'b', pad_id, eod, 'c', pad_id}}) {
    auto text = document;
    CHECK(fim.apply(0, text) == text.size());
    CHECK(text == document);
  }
  settings.rate = 0;
  ids ends{pad_id, 'a', pad_id, pad_id, 'b'};  // documents that are empty go
  CHECK(fill_in_middle(settings, fim_tokenizer(), 1).apply(0, ends) == 3);
  CHECK(ids(ends.begin(), ends.begin() + 3) == ids{'a', pad_id, 'b'});
}

TEST_CASE("the three parts make the text, in the order of the special tokens", "[data]") {
  const std::string text = "in the beginning was the w\xC3\xB6rd";
  for (const double spm_rate : {0.0, 1.0}) {
    const fill_in_middle fim(always(spm_rate), fim_tokenizer(), 7);
    for (std::uint64_t i = 0; i < 50; ++i) {
      auto sample = of(text);
      sample.resize(text.size() + 10, eod);  // room for special tokens and split pairs
      const auto room = sample.size();
      fim.apply(i, sample);
      REQUIRE(sample.size() == room);
      const auto head = std::size_t(spm_rate);
      CHECK(sample[0] == prefix_id);
      if (head == 1) {
        CHECK(sample[1] == suffix_id);
        const auto rest = after(sample, middle_id), suffix = after(sample, suffix_id);
        CHECK(rest + suffix == text);
      } else
        CHECK(after(sample, prefix_id) + after(sample, middle_id) + after(sample, suffix_id)
              == text);
    }
  }
}

TEST_CASE("a character is never split", "[data]") {
  const fill_in_middle fim(always(0), fim_tokenizer(), 3);
  for (std::uint64_t i = 0; i < 50; ++i) {
    auto sample = of("\xE4\xB8\x96\xE7\x95\x8C");
    sample.resize(16, eod);
    fim.apply(i, sample);
    for (const auto part : {prefix_id, middle_id, suffix_id})
      CHECK(after(sample, part).size() % 3 == 0);
  }
}

TEST_CASE("a sample depends on seed and number only", "[data]") {
  const auto become = [](std::uint32_t seed, std::uint64_t i) {
    auto sample = of("in the beginning was the word, and so on");
    fill_in_middle(always(0.5), fim_tokenizer(), seed).apply(i, sample);
    return sample;
  };
  CHECK(become(1, 5) == become(1, 5));
  CHECK(become(1, 5) != become(1, 6));
  CHECK(become(1, 5) != become(2, 5));
}

TEST_CASE("padding does not count in the loss, and the rest of a sample does", "[data]") {
  auto settings = always(0.5);
  settings.rate = 0;
  const auto fim = std::make_shared<fill_in_middle>(settings, fim_tokenizer(), 1);
  const gpt_dataset data(std::make_shared<empty_documents>(),
                         split_matrix("1,0,0"),
                         data_split::train,
                         {.sequence_length = 64,
                          .samples = 4,
                          .seed = 1,
                          .vocabulary = fim->vocabulary_size(),
                          .end_of_document = eod,
                          .fim = fim});
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto found = row_of(data, i);
    const auto& labels = found.labels;
    const auto used = 64 - std::size_t(std::ranges::count(labels, pad_id));
    CHECK((used > 40 && used < 60));
    for (std::size_t t = 0; t < 64; ++t) {
      CHECK((labels[t] == pad_id) == (t >= used));
      CHECK(found.mask[t] == (t < used ? 1.0F : 0.0F));
    }
  }
}

TEST_CASE("a vocabulary without the tokenizer's ids is refused", "[data]") {
  const auto fim = std::make_shared<fill_in_middle>(always(0.5), fim_tokenizer(), 1);
  CHECK_THROWS_WITH(gpt_dataset(std::make_shared<empty_documents>(),
                                split_matrix("1,0,0"),
                                data_split::train,
                                {.sequence_length = 8,
                                 .samples = 1,
                                 .vocabulary = 259,
                                 .end_of_document = eod,
                                 .fim = fim}),
                    ContainsSubstring("264 ids, but the model's vocabulary has 259"));
}

TEST_CASE("all tokens that the tokenizer lacks are named", "[data]") {
  auto settings = always(0.5);
  settings.middle_token = "<hole>";
  settings.split_sample = "two tokens";
  CHECK_THROWS_WITH(fill_in_middle(settings, fim_tokenizer(), 1),
                    ContainsSubstring("`data.fim.middle_token` '<hole>'")
                        && ContainsSubstring("`data.fim.split_sample` 'two tokens'")
                        && !ContainsSubstring("pad_token"));
  settings = always(0.5);
  settings.split_sample = "th";  // any token is allowed
  CHECK_NOTHROW(fill_in_middle(settings, fim_tokenizer(), 1));
}

TEST_CASE("two parts of a text with the same first token are refused", "[data]") {
  auto settings = always(0.5);
  settings.suffix_token = settings.prefix_token;
  CHECK_THROWS_WITH(
      fill_in_middle(settings, fim_tokenizer(), 1),
      ContainsSubstring("`data.fim.prefix_token` and `data.fim.suffix_token` are the same"));
  settings = always(0.5);
  settings.split_sample = settings.eod_token;
  CHECK_THROWS_WITH(fill_in_middle(settings, fim_tokenizer(), 1), ContainsSubstring("the same"));
}

TEST_CASE("a rate that is not a probability is refused", "[data]") {
  fim_settings settings;
  settings.rate = 1.5;
  settings.spm_rate = -1;
  settings.fragment_rate = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::string> wrong;
  validate_fim(settings, wrong);
  REQUIRE(wrong.size() == 3);
  CHECK_THAT(wrong[0], ContainsSubstring("`data.fim.rate` 1.5"));
}
