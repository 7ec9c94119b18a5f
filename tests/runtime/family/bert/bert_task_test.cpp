#include "runtime/core/error.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/tasks.hpp"
#include "runtime/file/file.hpp"
#include "runtime/model/chunk_pass.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"
#include "runtime/tokenizer/description.hpp"
#include "tests/support/sample_row.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <set>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;
using troupe::tests::writes_all;

namespace {

constexpr std::int32_t classify = 2, separator = 3, a = 5, b = 6, c = 7;

/// Labelled texts of the words a, b and c.
struct labelled {
  scratch_folder folder;
  data_settings data;
  bert_config model = bert_family().smallest(2).as<bert_config>();
  std::string tokenizer;

  explicit labelled(task_kind kind = task_kind::csv) {
    write_text(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n");
    const tokenizer_choice choice{.type = "BertWordPieceCase", .vocab_file = folder / "vocab.txt"};
    tokenizer = describe(choice, *make_tokenizer(choice));
    write_text(folder / "train.csv",
               "label,text_a,text_b\nno,a,b\nyes,a b c a b c a b,c\nyes,c,c c\nno,b,a\nyes,a,a\n");
    write_text(folder / "race.txt",
               R"({"article": "a b c", "questions": ["_ b"], "options": [["a", "b", "c", "a"]],)"
               R"( "answers": ["B"]})");
    const auto file = (folder / (kind == task_kind::race ? "race.txt" : "train.csv")).string();
    model.task = {.kind = kind, .train = {file}, .valid = {file}};
    if (kind == task_kind::csv)
      model.task.labels = {"yes", "no"};
    model.sequence = 8;
    model.positions = 8;
    model.hidden_dropout = model.attention_dropout = 0;
  }

  std::shared_ptr<const sample_dataset> open(data_split part,
                                             std::uint64_t evaluation = 0,
                                             std::uint64_t samples = 100) const {
    return open_task(model,
                     {.data = data,
                      .part = part,
                      .samples = samples,
                      .evaluation = evaluation,
                      .seed = 3,
                      .tokenizer = tokenizer});
  }
};

bundle task_sample_of(const sample_dataset& from, std::uint64_t i, document_cuts* cuts = nullptr) {
  memory_pool pool;
  auto out = empty_batch(from.schema(), 1, pool);
  from.fill(i, sample_view(out, 0, cuts));
  return out;
}

template <class T>
std::vector<T> values(const bundle& of, const char* name) {
  const auto all = of.at(name).elements<T>();
  return {all.begin(), all.end()};
}

using ids = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("a pair of texts is [CLS] A [SEP] B [SEP], with types and padding", "[task]") {
  const labelled of;
  const auto data = of.open(data_split::valid);
  document_cuts cuts;
  const auto x = task_sample_of(*data, 0, &cuts);
  CHECK(values<std::int32_t>(x, "tokens") == ids{classify, a, separator, b, separator, 0, 0, 0});
  CHECK(values<std::int32_t>(x, "types") == ids{0, 0, 0, 1, 1, 0, 0, 0});
  CHECK(values<std::int32_t>(x, "positions") == ids{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(values<std::int32_t>(x, "classes") == ids{1});
  CHECK(cuts.at("documents") == ids{5});
  CHECK(writes_all(*data, 0));
}

TEST_CASE("a long pair is cut before its last [SEP], which has the second type", "[task]") {
  const labelled of;
  const auto x = task_sample_of(*of.open(data_split::valid), 1);
  CHECK(values<std::int32_t>(x, "tokens") == ids{classify, a, b, c, a, b, c, separator});
  CHECK(values<std::int32_t>(x, "types") == ids{0, 0, 0, 0, 0, 0, 0, 1});
}

TEST_CASE("the choices of RACE share a sample, each with its own positions and document",
          "[task]") {
  const labelled of(task_kind::race);
  CHECK(of.model.rows() == 32);
  document_cuts cuts;
  const auto x = task_sample_of(*of.open(data_split::train), 0, &cuts);
  const auto tokens = values<std::int32_t>(x, "tokens");
  CHECK(ids(tokens.begin() + 8, tokens.begin() + 16)
        == ids{classify, b, b, separator, a, b, c, separator});
  CHECK(values<std::int32_t>(x, "positions")[8] == 0);
  CHECK(values<std::int32_t>(x, "classes") == ids{1});
  CHECK(cuts.at("documents") == ids{8, 16, 24});
}

TEST_CASE("each epoch of training has all texts, in an order of its own", "[task]") {
  const labelled of;
  const auto data = of.open(data_split::train);
  std::set<std::vector<ids>> orders;
  for (std::uint64_t epoch = 0; epoch < 8; ++epoch) {
    std::vector<ids> order;
    for (std::uint64_t i = 0; i < 5; ++i)
      order.push_back(values<std::int32_t>(task_sample_of(*data, 5 * epoch + i), "tokens"));
    CHECK(std::set(order.begin(), order.end()).size() == 5);
    orders.insert(order);
  }
  CHECK(orders.size() > 1);
}

TEST_CASE("an evaluation reads each text once, and the rest of its last batch does not count",
          "[task]") {
  const labelled of;
  const auto data = of.open(data_split::valid, 8);
  for (std::uint64_t evaluation = 0; evaluation < 2; ++evaluation)
    for (std::uint64_t i = 0; i < 8; ++i) {
      const auto x = task_sample_of(*data, 8 * evaluation + i);
      CHECK(values<float>(x, "counted").front() == (i < 5 ? 1 : 0));
      if (i < 5)
        CHECK(values<std::int32_t>(x, "tokens")
              == values<std::int32_t>(task_sample_of(*data, i), "tokens"));
    }
}

TEST_CASE("the accuracy is the share of counted samples with the right class", "[task]") {
  const auto kind = GENERATE(task_kind::csv, task_kind::race);
  const labelled of(kind);
  const auto spec = bert_spec(of.model, {});
  memory_pool pool;
  stream on(troupe::kernels::backend::cpu, 1, pool);
  const chunk whole(bert_spec(of.model, {}), all_of(spec));
  resident_store store(whole.units(), 0, pool, dtype::f32);
  initialise(store, 1);
  const recompute_plan plan(whole, {});
  const auto data = of.open(data_split::valid);
  const auto run = [&](std::int32_t wanted, float counts) {
    document_cuts cuts;
    auto in = task_sample_of(*data, 0, &cuts);
    auto classes = in.at("classes");
    *classes.data<std::int32_t>() = wanted;
    auto counted = in.at("counted");
    *counted.data<float>() = counts;
    in.add("samples", uploaded(on, std::vector<std::uint64_t>{0}, {1}));
    std::vector<std::int32_t> borders = {0};
    for (const auto row : cuts["documents"])
      borders.push_back(row);
    const auto D = std::int64_t(borders.size());
    borders.push_back(std::int32_t(of.model.rows()));
    in.add("documents", uploaded(on, borders, {D + 1}));
    in.add("document_samples", uploaded(on, std::vector<std::uint64_t>(std::size_t(D)), {D}));
    chunk_pass pass(whole, plan, on, store, {.training = false});
    pass.forward(in);
    CHECK(pass.loss("task loss").tokens == counts);
    return pass.loss("accuracy");
  };
  double right = 0;
  for (std::int32_t k = 0; k < of.model.task.classes(); ++k) {
    const auto found = run(k, 1);
    CHECK(found.tokens == 1);
    right += found.total;
  }
  CHECK(right == 1);  // one class has the largest logit
  CHECK(run(0, 0).tokens == 0);
}

TEST_CASE("a task replaces the heads of pre-training", "[task]") {
  const labelled of;
  const auto spec = bert_spec(of.model, {});
  CHECK(spec.units.back().module.get_if<task_head_spec>() != nullptr);
  const auto losses = losses_of(spec);
  REQUIRE(losses.size() == 2);
  CHECK(losses[0].name == "task loss");
  CHECK(losses[1].name == "accuracy");
  CHECK(losses[1].weight == 0);
  CHECK(validate(of.model).empty());
  const auto& family = bert_family();
  const model_description model = of.model;
  CHECK(family.from_json(family.to_json(model)) == model);
  CHECK(family.begins_anew(model, "classification_head.weight"));
  CHECK(family.begins_anew(model, "pooler.dense.bias"));
  CHECK(!family.begins_anew(model, "embedding.word_embeddings.weight"));
  auto pretrained = of.model;
  pretrained.task = {};
  CHECK(family.essence(family.body_of(pretrained)) == family.essence(family.body_of(model)));
}

TEST_CASE("settings of a task without the others are refused", "[task]") {
  auto x = labelled().model;
  const auto complaint = [&] {
    const auto all = validate(x);
    REQUIRE(all.size() == 1);
    return all.front();
  };
  x.task.labels = {"yes", "yes"};
  CHECK_THAT(complaint(), ContainsSubstring("two or more different"));
  x.task.kind = task_kind::qqp;
  CHECK_THAT(complaint(), ContainsSubstring("qqp has its own"));
  x.task.labels.clear();
  x.task.train.clear();
  CHECK_THAT(complaint(), ContainsSubstring("needs `model.task.train`"));
  x.task.kind = task_kind::none;
  CHECK_THAT(complaint(), ContainsSubstring("need `model.task.kind`"));
}

TEST_CASE("a tokenizer without [CLS] is refused before texts are read", "[task]") {
  const labelled of;
  const tokenizer_choice numbers{.type = "NullTokenizer", .vocabulary_size = 29};
  const auto wrong = wrong_with_task(of.model, describe(numbers, *make_tokenizer(numbers)));
  REQUIRE(wrong.size() == 1);
  CHECK_THAT(wrong.front(), ContainsSubstring("[CLS]"));
}
