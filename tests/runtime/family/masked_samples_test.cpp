#include "runtime/family/masked_samples.hpp"

#include "runtime/data/indexed_dataset_builder.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/family/t5/t5.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/description.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;

namespace {

constexpr std::int32_t masked_words = 30;  // from id 5 on

struct masked_corpus {
  scratch_folder folder;
  data_settings data;
  std::string tokenizer;

  masked_corpus() {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 0; i < masked_words; ++i)
      vocabulary += (i % 3 == 2 ? "##w" : "w") + std::to_string(i) + "\n";
    write_text(folder / "vocab.txt", vocabulary);
    const tokenizer_choice choice{.type = "BertWordPieceCase", .vocab_file = folder / "vocab.txt"};
    tokenizer = describe(choice, *make_tokenizer(choice));
    indexed_dataset_builder out(folder / "text_sentence", 5 + masked_words);
    for (std::int32_t document = 0; document < 20; ++document) {
      for (std::int32_t sentence = 0; sentence < 4; ++sentence) {
        std::vector<std::int32_t> ids;
        for (std::int32_t t = 0; t < 3 + (document + sentence) % 7; ++t)
          ids.push_back(5 + (document * 7 + sentence * 5 + t * t) % masked_words);
        out.add_sequence(ids);
      }
      out.end_document();
    }
    out.finish();
    data.path = {.prefixes = {folder / "text_sentence"}};
  }

  samples_request request() const {
    return {.data = data,
            .prefix = data.path.prefixes.front(),
            .samples = 50,
            .seed = 7,
            .tokenizer = tokenizer};
  }
};

bundle filled_batch(const sample_dataset& from, std::uint64_t i) {
  memory_pool pool;
  auto out = empty_batch(from.schema(), 1, pool);
  from.fill(i, sample_view(out, 0));
  return out;
}

bert_config masked_bert(bool binary_head = true) {
  return {.layers = 1,
          .hidden = 8,
          .heads = 2,
          .ffn = 16,
          .sequence = 32,
          .positions = 32,
          .types = binary_head ? 2 : 0,
          .vocabulary = 5 + masked_words,
          .padded_vocabulary = 64,
          .binary_head = binary_head};
}

t5_config masked_t5(std::int64_t extra) {
  auto out = t5_form("megatron");
  out.encoder_layers = out.decoder_layers = 1;
  out.hidden = 8;
  out.heads = 2;
  out.head_size = 4;
  out.ffn = 16;
  out.encoder_sequence = 32;
  out.decoder_sequence = 16;
  out.positions = 32;
  out.extra_ids = extra;
  out.vocabulary = 5 + masked_words + extra;
  out.padded_vocabulary = 64;
  return out;
}

}  // namespace

TEST_CASE("a BERT reads data sets of sentences", "[family][bert]") {
  const masked_corpus from;
  for (const bool pairs : {true, false}) {
    const auto config = masked_bert(pairs);
    const auto set = bert_samples().open(config, from.request());
    CHECK(set->size() >= 50);
    CHECK(set->schema() == bert_schema(config));
    const auto batch = filled_batch(*set, 0);
    CHECK(batch.at("tokens").elements<std::int32_t>()[0] == 2);  // [CLS]
    std::int64_t masked = 0;
    for (std::uint64_t i = 0; i < set->size(); ++i) {
      const auto one = filled_batch(*set, i);
      masked += std::ranges::count(one.at("tokens").elements<std::int32_t>(), 4);
    }
    CHECK(masked > 0);
  }
  CHECK(bert_samples().validate(masked_bert(), from.data, from.tokenizer).empty());
  CHECK(bert_samples().splits_documents());
}

TEST_CASE("a T5 reads data sets of sentences with sentinels behind the vocabulary",
          "[family][t5]") {
  const masked_corpus from;
  const auto config = masked_t5(5);
  const auto set = t5_samples().open(config, from.request());
  CHECK(set->schema() == t5_schema(config));
  const auto batch = filled_batch(*set, 0);
  CHECK(batch.at("tokens").elements<std::int32_t>()[0] == 2);  // begins with [CLS]
  CHECK(batch.at("labels").elements<std::int32_t>()[0] == 5 + masked_words);
  CHECK(t5_samples().validate(config, from.data, from.tokenizer).empty());
}

TEST_CASE("a data set of whole texts is refused by its name and its documents", "[family]") {
  const masked_corpus from;
  const auto write = [&from](const char* name, int sentences) {
    indexed_dataset_builder out(from.folder / name, 5 + masked_words);
    for (int document = 0; document < 4; ++document) {
      for (int sentence = 0; sentence < sentences; ++sentence)
        out.add_sequence(std::vector<std::int32_t>{5, 6, 7, 8});
      out.end_document();
    }
    out.finish();
    auto request = from.request();
    request.prefix = from.folder / name;
    return request;
  };
  const auto whole = write("whole_document", 1);
  CHECK_THROWS_WITH(bert_samples().open(masked_bert(false), whole),
                    ContainsSubstring("its 4 documents were not split into sentences")
                        && ContainsSubstring("`troupe preprocess` again"));
  CHECK_THROWS_WITH(t5_samples().open(masked_t5(5), whole), ContainsSubstring("not split"));
  CHECK_NOTHROW(t5_samples().open(masked_t5(5), write("single_sentence", 1)));
  CHECK_NOTHROW(t5_samples().open(masked_t5(5), write("list_document", 2)));
}

TEST_CASE("a tokenizer without the tokens of masks is refused before a run", "[family]") {
  const masked_corpus from;
  const tokenizer_choice ids{.type = "NullTokenizer", .vocabulary_size = 40};
  const auto other = describe(ids, *make_tokenizer(ids));
  const auto first = [](const std::vector<std::string>& wrong) {
    REQUIRE(wrong.size() == 1);
    return wrong.front();
  };
  CHECK_THAT(first(bert_samples().validate(masked_bert(), from.data, other)),
             ContainsSubstring("NullTokenizer, lacks [CLS], [SEP], [MASK]"));
  CHECK_THAT(first(bert_samples().validate(masked_bert(), from.data, "")),
             ContainsSubstring("need the tokenizer of the data"));
  CHECK(bert_samples().validate(masked_bert(), {.mock = true}, "").empty());
  CHECK_THAT(first(t5_samples().validate(masked_t5(0), from.data, from.tokenizer)),
             ContainsSubstring("0 sentinels") && ContainsSubstring("`model.extra_ids`"));
  CHECK_THAT(first(t5_samples().validate(masked_t5(2), from.data, from.tokenizer)),
             ContainsSubstring("4 spans") && ContainsSubstring("2 sentinels"));
  auto narrow = masked_bert();
  narrow.sequence = 9;
  CHECK_THAT(first(bert_samples().validate(narrow, from.data, from.tokenizer)),
             ContainsSubstring("less than one token"));
  auto short_text = masked_t5(5);
  short_text.encoder_sequence = 8;
  CHECK_THAT(first(t5_samples().validate(short_text, from.data, from.tokenizer)),
             ContainsSubstring("less than one token"));
}

TEST_CASE("settings of masks are settings of the family, and stay in its JSON", "[family]") {
  auto config = masked_bert();
  const model_description plain = config;
  CHECK(plain.family().to_json(plain).find("masking") == std::string::npos);
  config.masking.permutation = true;
  const model_description other = config;
  CHECK(other.family().from_json(other.family().to_json(other)) == other);
  CHECK(other.family().essence(other) == plain.family().essence(plain));
  config.masking.geometric = true;
  CHECK(!model_description(config).family().validate(config).empty());
}
