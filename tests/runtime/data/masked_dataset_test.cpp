#include "runtime/data/masked_pairs.hpp"
#include "runtime/data/masked_spans.hpp"
#include "runtime/data/masking_tokens.hpp"
#include "runtime/data/token_schema.hpp"
#include "tests/runtime/data/golden.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fcntl.h>
#include <functional>
#include <map>
#include <numeric>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace troupe::tests {
namespace {

namespace rt = runtime;
using Catch::Matchers::ContainsSubstring;
using id_list = std::vector<std::int32_t>;
using sentence_lengths = std::vector<id_list>;

/// The reference output of megatron-core (tests/golden/data/masked.py).
const nlohmann::json& masked_golden() {
  static const auto all
      = nlohmann::json::parse(rt::read_text(source_dir() + "/tests/golden/data/masked.json"));
  return all;
}

std::shared_ptr<const rt::indexed_dataset> write_sentences(const scratch_folder& in,
                                                           const std::string& name,
                                                           const sentence_lengths& lengths) {
  const auto V = masked_golden()["vocabulary"].get<std::int64_t>();
  rt::indexed_dataset_builder out(in / name, V);
  for (const auto& document : lengths) {
    for (const std::int64_t length : document) {
      id_list tokens;
      for (std::int64_t t = 0; t < length; ++t)
        tokens.push_back(std::int32_t(5 + (out.sequences() * 31 + t * t * 7 + t * 13) % (V - 5)));
      out.add_sequence(tokens);
    }
    out.end_document();
  }
  out.finish();
  return std::make_shared<rt::indexed_dataset>(in / name);
}

rt::masking_settings masking_of(const nlohmann::json& x) {
  return {.probability = x["probability"],
          .short_sequences = x["short_sequences"],
          .max_ngram = x["max_ngram"],
          .whole_words = x["whole_words"],
          .permutation = x["permutation"],
          .longer_ngrams = x["longer_ngrams"],
          .geometric = x["geometric"]};
}

rt::masked_dataset_options options_of(const nlohmann::json& c, std::int64_t extra = 0) {
  const auto& g = masked_golden();
  rt::masked_dataset_options out{.samples = c["samples"].get<std::uint64_t>(),
                                 .seed = c["seed"],
                                 .masking = masking_of(c["masking"])};
  out.vocabulary = {.classify = 2, .separator = 3};
  const auto V = g["vocabulary"].get<std::int64_t>();
  for (std::int64_t id = 0; id < V + extra; ++id)
    out.vocabulary.continues.push_back(g["first_part"] <= id && id < V);
  return out;
}

/// A data set of these documents alone: the golden cases give ranges, not splits.
class part_of_documents final : public rt::document_source {
 public:
  part_of_documents(std::shared_ptr<const rt::document_source> all,
                    std::int64_t begin,
                    std::int64_t end)
      : all_(std::move(all)), begin_(begin), end_(end) {}
  std::int64_t sequences() const override { return all_->sequences(); }
  std::int32_t length(std::int64_t s) const override { return all_->length(s); }
  void get(std::int64_t s, std::int64_t offset, std::span<std::int32_t> out) const override {
    all_->get(s, offset, out);
  }
  std::string place(std::int64_t s) const override { return all_->place(s); }
  std::int64_t documents() const override { return end_ - begin_; }
  std::int64_t document_begin(std::int64_t d) const override {
    return all_->document_begin(begin_ + d);
  }

 private:
  std::shared_ptr<const rt::document_source> all_;
  std::int64_t begin_, end_;
};

rt::batch_schema pair_schema(std::int64_t S, bool pairs) {
  auto out = rt::token_schema(S, true);
  out.tensors.push_back({.name = "types", .type = rt::dtype::i32, .extents = {S}, .rows = 0});
  if (pairs)
    out.tensors.push_back({.name = "is_random", .type = rt::dtype::i32, .extents = {1}});
  return out;
}

rt::batch_schema span_schema(std::int64_t E, std::int64_t D) {
  auto out = rt::token_schema(D, true);
  for (const auto* name : {"encoder_tokens", "encoder_positions"})
    out.tensors.push_back({.name = name, .type = rt::dtype::i32, .extents = {E}, .rows = 0});
  out.more_documents = {{"encoder_documents", "encoder_tokens"}};
  return out;
}

/// One sample as lists of numbers, with the lengths of its texts.
std::map<std::string, id_list> sample_of(const rt::sample_dataset& set, std::uint64_t i) {
  rt::memory_pool pool;
  const auto schema = set.schema();
  const auto batch = rt::empty_batch(schema, 1, pool);
  rt::document_cuts cuts;
  const rt::sample_view row(batch, 0, &cuts);
  set.fill(i, row);
  std::map<std::string, id_list> out;
  for (const auto& x : schema.tensors)
    if (x.type == rt::dtype::f32)
      for (const auto value : row.at<float>(x.name))
        out[x.name].push_back(std::int32_t(value));
    else
      for (const auto value : row.at<std::int32_t>(x.name))
        out[x.name].push_back(value);
  for (const auto& [borders, of] : schema.borders())
    out[borders == "documents" ? "length" : "encoder_length"]
        = cuts[borders].empty() ? id_list{std::int32_t(schema.rows_of(of))} : cuts[borders];
  return out;
}

constexpr std::array pair_parts = {"tokens", "types", "labels", "mask", "length", "is_random"};
constexpr std::array span_parts
    = {"encoder_tokens", "tokens", "labels", "mask", "length", "encoder_length"};

id_list counting(std::size_t n) {
  id_list out(n);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

/// Compares the index and all samples with those of a golden case.
void check_case(const rt::masked_dataset& set,
                const nlohmann::json& c,
                std::span<const char* const> parts) {
  REQUIRE(set.size() == c["count"]);
  std::vector<std::uint32_t> index;
  for (std::size_t k = 0; k < set.index().size(); ++k)
    index.push_back(std::uint32_t(set.index()[k]));
  const auto first = c["first_rows"].get<std::vector<std::vector<std::uint32_t>>>();
  for (std::size_t r = 0; r < first.size(); ++r)
    CHECK(std::vector(&index[3 * r], &index[3 * r] + 3) == first[r]);
  CHECK(sha256_of(index.data(), 4 * index.size()) == c["index_sha256"]);

  id_list all;
  for (std::uint64_t i = 0; i < set.size(); ++i) {
    auto sample = sample_of(set, i);
    if (parts.back() == std::string("is_random") && !sample.contains("is_random"))
      sample["is_random"] = {0};
    if (i == 0 || i == set.size() / 2) {
      const auto& expected = c["some"][i == 0 ? 0 : 1];
      for (const auto* part : parts) {
        INFO("sample " << i << ", " << part);
        CHECK(sample[part]
              == (expected[part].is_array() ? expected[part].get<id_list>()
                                            : id_list{expected[part].get<std::int32_t>()}));
      }
      CHECK(sample["positions"] == counting(sample["positions"].size()));
    }
    for (const auto* part : parts)
      all.insert(all.end(), sample[part].begin(), sample[part].end());
  }
  CHECK(sha256_of(all.data(), 4 * all.size()) == c["samples_sha256"]);
}

struct golden_corpora {
  scratch_folder folder;
  std::vector<std::shared_ptr<const rt::indexed_dataset>> all;

  golden_corpora() {
    for (const auto& corpus : masked_golden()["corpora"])
      all.push_back(write_sentences(
          folder, "corpus" + std::to_string(all.size()), corpus.get<sentence_lengths>()));
  }
  std::shared_ptr<const rt::document_source> of(const nlohmann::json& c) const {
    return std::make_shared<part_of_documents>(
        all[c["corpus"].get<std::size_t>()], c["documents"][0], c["documents"][1]);
  }
};

const rt::split_matrix undivided("1");
constexpr rt::masked_pair_tokens special_ids{.classify = 2, .separator = 3, .mask = 4};

rt::masked_pairs pairs_of(std::shared_ptr<const rt::document_source> source,
                          std::optional<std::filesystem::path> cache = {},
                          bool pairs = true) {
  auto options = options_of(masked_golden()["pairs"][0]);
  options.cache = std::move(cache);
  return {std::move(source),
          undivided,
          rt::data_split::train,
          std::move(options),
          special_ids,
          pair_schema(32, pairs)};
}

/// Documents of three sentences of four tokens, so many that their numbers are large.
class many_documents final : public rt::document_source {
 public:
  many_documents(
      std::int64_t first, std::int64_t documents, std::function<void()> look = [] {})
      : first_(first), documents_(documents), look_(std::move(look)) {}
  std::int64_t sequences() const override { return document_begin(documents_); }
  std::int32_t length(std::int64_t) const override {
    look_();
    return 4;
  }
  void get(std::int64_t s, std::int64_t, std::span<std::int32_t> out) const override {
    std::ranges::fill(out, std::int32_t(5 + s % 100));
  }
  std::string place(std::int64_t s) const override { return std::to_string(s); }
  std::int64_t documents() const override { return documents_; }
  std::int64_t document_begin(std::int64_t d) const override { return first_ + 3 * d; }

 private:
  std::int64_t first_, documents_;
  std::function<void()> look_;
};

std::map<std::string, std::string> contents_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    out[entry.path().filename().string()] = rt::read_text(entry.path());
  return out;
}

/// A tokenizer with these special tokens behind its bytes.
rt::masked_span_tokens spans_with(std::vector<std::string> named, std::int64_t extra) {
  return rt::span_tokens_of(byte_tokenizer("", std::move(named)), extra);
}

}  // namespace

TEST_CASE("pairs with masked words equal those of megatron-core", "[data][golden]") {
  const golden_corpora corpora;
  for (const auto& c : masked_golden()["pairs"]) {
    INFO(c["corpus"] << " " << c["length"] << " " << c["pairs"] << " " << c["masking"].dump());
    check_case(rt::masked_pairs(corpora.of(c),
                                undivided,
                                rt::data_split::train,
                                options_of(c),
                                special_ids,
                                pair_schema(c["length"], c["pairs"])),
               c,
               pair_parts);
  }
}

TEST_CASE("spans with sentinels equal those of megatron-core", "[data][golden]") {
  const golden_corpora corpora;
  const auto V = masked_golden()["vocabulary"].get<std::int32_t>();
  const auto extra = masked_golden()["sentinels"].get<std::int32_t>();
  rt::masked_span_tokens special{.begin = 2, .end = 3, .sentinels = id_list(std::size_t(extra))};
  std::iota(special.sentinels.begin(), special.sentinels.end(), V);
  for (const auto& c : masked_golden()["spans"]) {
    INFO(c["corpus"] << " " << c["length"] << " " << c["masking"].dump());
    check_case(rt::masked_spans(corpora.of(c),
                                undivided,
                                rt::data_split::train,
                                options_of(c, extra),
                                special,
                                span_schema(c["length"], c["decoder"])),
               c,
               span_parts);
  }
}

TEST_CASE("spans that do not fit into the decoder stay in the text", "[data]") {
  const golden_corpora corpora;
  const auto& c = masked_golden()["spans"][0];
  rt::masked_span_tokens special{.begin = 2, .end = 3, .sentinels = id_list(60)};
  std::iota(special.sentinels.begin(), special.sentinels.end(), 200);
  const auto source = corpora.of(c);
  const rt::masked_spans wide(
      source, undivided, rt::data_split::train, options_of(c, 60), special, span_schema(64, 40));
  const rt::masked_spans narrow(
      source, undivided, rt::data_split::train, options_of(c, 60), special, span_schema(64, 4));
  std::size_t left = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const auto all = sample_of(wide, i), some = sample_of(narrow, i);
    CHECK(some.at("length")[0] <= 4);
    const auto n = std::ptrdiff_t(some.at("length")[0]);
    CHECK(std::equal(
        some.at("tokens").begin(), some.at("tokens").begin() + n, all.at("tokens").begin()));
    // Every token of the text is in one of the two.
    const auto whole_text = [](const auto& x) { return x.at("encoder_length")[0]; };
    left += whole_text(some) > whole_text(all) ? 1 : 0;
  }
  CHECK(left > 0);
}

TEST_CASE("the cached index of sentences is reused, and built again when damaged", "[data]") {
  const scratch_folder folder;
  const auto source = write_sentences(folder, "data", {{4, 5, 6}, {7, 8}, {9, 3, 2, 8}});
  const auto built = pairs_of(source).index().digest();
  CHECK(pairs_of(source, folder / "cache").index().digest() == built);
  const auto files = contents_of(folder / "cache");
  CHECK(files.size() == 3);  // array, description, lock
  CHECK(pairs_of(source, folder / "cache").index().digest() == built);
  CHECK(contents_of(folder / "cache") == files);

  for (const auto& [name, text] : files)
    if (name.ends_with(".npy")) {
      auto damaged = text;
      damaged.back() = char(damaged.back() ^ 1);
      rt::write_text(folder / "cache" / name, damaged);
    }
  CHECK(pairs_of(source, folder / "cache").index().digest() == built);
  CHECK(contents_of(folder / "cache") == files);

  // The same sentences in other documents are another index.
  const auto other = write_sentences(folder, "other", {{4, 5}, {6, 7, 8}, {9, 3, 2, 8}});
  CHECK(pairs_of(other, folder / "cache").index().digest() == pairs_of(other).index().digest());
}

TEST_CASE("sentences behind the range of 32 bits are found, also in a cached index", "[data]") {
  const scratch_folder folder;
  constexpr std::int64_t first = (std::int64_t{1} << 32) - 5;
  const auto source = std::make_shared<many_documents>(first, 4);
  const auto small = std::make_shared<many_documents>(0, 4);
  const auto near = pairs_of(small), far = pairs_of(source), built = pairs_of(source, folder / "c"),
             loaded = pairs_of(source, folder / "c");
  REQUIRE(far.size() == near.size());
  CHECK(near.index().shape().type == rt::index_type::u32);
  CHECK(far.index().shape().type == rt::index_type::i64);
  for (std::size_t k = 0; k < far.index().size(); ++k)
    CHECK(far.index()[k] == near.index()[k] + (k % 3 < 2 ? first : 0));
  CHECK(built.index().digest() == far.index().digest());
  CHECK(loaded.index().digest() == far.index().digest());
  CHECK(sample_of(loaded, 0) == sample_of(far, 0));
}

TEST_CASE("an index of sentences can be interrupted within an epoch", "[data]") {
  const rt::cancel_token stop;
  std::int64_t looks = 0;
  const many_documents source(0, 1 << 18, [&] {
    if (++looks == 100)
      stop.cancel();
  });
  CHECK_THROWS_AS(rt::build_sentence_index(
                      source, {.documents = {0, 1 << 18}, .longest = 20, .samples = 1}, stop),
                  rt::cancelled);
  CHECK(looks < 6 * (1 << 17));  // two looks a sentence
}

TEST_CASE("threads that need one index of sentences at once get the same", "[data]") {
  const scratch_folder folder;
  const auto source = write_sentences(folder, "data", {{4, 5, 6}, {7, 8}, {9, 3, 2, 8}});
  std::array<std::string, 4> digests;
  {
    std::vector<std::jthread> all;
    for (auto& digest : digests)
      all.emplace_back([&] { digest = pairs_of(source, folder / "cache").index().digest(); });
  }
  for (const auto& digest : digests)
    CHECK(digest == pairs_of(source).index().digest());
  CHECK(contents_of(folder / "cache").size() == 3);  // array, description, lock
}

TEST_CASE("a process that waits for another one's index can be interrupted", "[data]") {
  const scratch_folder folder;
  const auto source = write_sentences(folder, "data", {{4, 5, 6}, {7, 8}});
  pairs_of(source, folder / "cache");
  int held = -1;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "cache"))
    if (entry.path().string().ends_with("-lock"))
      held = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(held, LOCK_EX | LOCK_NB) == 0);
  auto options = options_of(masked_golden()["pairs"][0]);
  options.cache = folder / "cache";
  options.stop.cancel();
  CHECK_THROWS_AS(
      rt::masked_pairs(
          source, undivided, rt::data_split::train, options, special_ids, pair_schema(32, true)),
      rt::cancelled);
  ::close(held);
}

TEST_CASE("data sets that were not split into sentences are refused", "[data]") {
  const scratch_folder folder;
  CHECK_THROWS_WITH(pairs_of(write_sentences(folder, "single", {{4}, {5}, {6}})),
                    ContainsSubstring("at most one sentence each")
                        && ContainsSubstring("`troupe preprocess` again, with texts split"));
  CHECK_NOTHROW(pairs_of(write_sentences(folder, "single", {{4}, {5}, {6}}), {}, false));
  CHECK_THROWS_WITH(pairs_of(write_sentences(folder, "long", {{4}, {513}}), {}, false),
                    ContainsSubstring("one has 513 tokens")
                        && ContainsSubstring("`troupe preprocess` again, with texts split"));
  CHECK_THROWS_WITH(pairs_of(write_sentences(folder, "gap", {{600}, {}, {4}}), {}, false),
                    ContainsSubstring("one has 600 tokens"));
  CHECK_THROWS_WITH(pairs_of(write_sentences(folder, "gap", {{5}, {}, {4}})),
                    ContainsSubstring("at most one sentence each"));
  CHECK_THROWS_WITH(pairs_of(write_sentences(folder, "empty", {{}, {}}), {}, false),
                    ContainsSubstring("none of its 2 documents makes a sample"));
  CHECK_THROWS_WITH(pairs_of(write_sentences(folder, "odd", {{4}, {513, 2}})),
                    ContainsSubstring("none of its 2 documents makes a sample"));
  CHECK_THROWS_WITH(pairs_of(write_sentences(folder, "none", {})),
                    ContainsSubstring("no documents"));
}

TEST_CASE("tokenizers without the tokens of masked samples are refused by name", "[data]") {
  CHECK_THROWS_WITH(rt::pair_tokens_of(byte_tokenizer("", {"[CLS]"})),
                    ContainsSubstring("lacks [SEP], [MASK]"));
  CHECK(rt::pair_tokens_of(byte_tokenizer("", {"[MASK]", "[CLS]", "[SEP]"})).classify == 259);
  CHECK_THROWS_WITH(spans_with({}, 5), ContainsSubstring("[BOS] or <s> or <pad> or [CLS]"));
  CHECK(spans_with({"<pad>", "</s>"}, 0).sentinels.empty());  // a trained model needs none
  CHECK_THROWS_WITH(rt::require_sentinels(spans_with({"<pad>", "</s>"}, 0), 32, 0.15),
                    ContainsSubstring("there are 0 sentinels"));
  CHECK(spans_with({"<pad>", "</s>"}, 2).sentinels == id_list{260, 261});
  const byte_tokenizer code("", {"<pad>", "<s>", "</s>"});  // as a CodeT5's, behind bytes
  CHECK(rt::span_tokens_of(code, 0).begin == 259);
  CHECK(rt::span_tokens_of(code, 0, 258).begin == 258);
  CHECK(rt::span_tokens_of(byte_tokenizer("", {"</s>"}), 1, 0).begin == 0);
  CHECK_THROWS_WITH(rt::span_tokens_of(code, 2, 263),
                    ContainsSubstring("`model.decoder_start` 263: the ids of the tokenizer and its "
                                      "sentinels are below 263"));
  const auto own = spans_with({"<extra_id_1>", "<extra_id_0>", "<s>", "</s>"}, 0);
  CHECK(own.sentinels == id_list{259, 258});
  CHECK(own.begin == 260);
  const auto words = rt::masking_vocabulary_of(byte_tokenizer("##a", {"[SEP]", "[CLS]"}), 270);
  CHECK(words.continues[257]);
  CHECK(!words.continues[258]);
  CHECK(words.separator == 258);
  CHECK(words.classify == 259);
  CHECK(words.continues.size() == 270);
}

TEST_CASE("masks and indices have sizes that are possible", "[data]") {
  const scratch_folder folder;
  const auto source = write_sentences(folder, "data", {{4, 5}});
  rt::numpy_random_state draws(1);
  const auto stays = [](rt::numpy_random_state&) { return std::optional<std::int32_t>(); };
  CHECK_BREAKS("MASKING-1", rt::mask_tokens({}, 8, {.max_ngram = 129}, {}, stays, draws));
  CHECK_BREAKS("SENTENCES-1",
               rt::build_sentence_index(*source, {.documents = {0, 1}, .longest = 1}));
}

TEST_CASE("samples that settings or data make impossible are refused", "[data]") {
  const golden_corpora corpora;
  const auto& c = masked_golden()["spans"][0];
  const auto spans = [&](std::size_t sentinels, std::int64_t E, std::int64_t D) {
    return rt::masked_spans(corpora.of(c),
                            undivided,
                            rt::data_split::train,
                            options_of(c, 60),
                            {.begin = 2, .end = 3, .sentinels = id_list(sentinels)},
                            span_schema(E, D));
  };
  CHECK_THROWS_WITH(spans(8, 64, 40),
                    ContainsSubstring("9 spans") && ContainsSubstring("8 sentinels")
                        && ContainsSubstring("`model.extra_ids`"));
  CHECK_THROWS_WITH(spans(9, 64, 2), ContainsSubstring("2 tokens, and a span needs 3"));
  CHECK_THROWS_WITH(spans(9, 3, 5), ContainsSubstring("room for 1 token"));
  CHECK_THROWS_WITH(sample_of(spans(9, 64, 40), 1 << 20), ContainsSubstring("it has"));
  auto options = options_of(c);
  options.vocabulary.continues.resize(20);
  CHECK_THROWS_WITH(sample_of(rt::masked_pairs(corpora.of(c),
                                               undivided,
                                               rt::data_split::train,
                                               options,
                                               special_ids,
                                               pair_schema(32, true)),
                              0),
                    ContainsSubstring("outside the vocabulary of 20 ids"));
  CHECK_THROWS_WITH(rt::require_masks(6, 0.15),
                    ContainsSubstring("less than one token") && ContainsSubstring("7 tokens"));
  CHECK_NOTHROW(rt::require_masks(7, 0.15));
  options.masking.probability = 1;
  options.masking.permutation = true;
  std::vector<std::string> wrong;
  rt::validate_masking(options.masking, wrong);
  CHECK(wrong.size() == 2);
}

}  // namespace troupe::tests
