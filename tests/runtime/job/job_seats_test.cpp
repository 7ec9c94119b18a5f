// The groups that a job's ranks join. Processes meet by their names.

#include "runtime/job/job_seats.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/job/layout_rules.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

struct layout {
  std::string schedule;
  int pipeline, tensor, replicas;
};

training_job job_of(const layout& x, bool tied) {
  training_job job;
  auto& m = job.training.model.as<gpt_config>();
  m.layers = 8;
  m.hidden = 32;
  m.heads = m.groups = 4;
  m.head_size = 8;
  m.ffn = 64;
  m.sequence = m.positions = 16;
  m.vocabulary = m.padded_vocabulary = 64;
  m.tied_embeddings = tied;
  job.training.batch = {.micro = 1, .global = 8 * x.replicas, .data_parallel = x.replicas};
  job.layout.world = x.pipeline * x.tensor * x.replicas;
  job.layout.tensor = x.tensor;
  job.layout.pipeline = x.pipeline;
  job.layout.schedule.source = x.schedule;
  job.data.mock = true;
  job.train_iterations = 10;
  return job;
}

std::vector<std::string> names_at(int rank, const layout& x, bool tied) {
  const auto job = job_of(x, tied);
  std::vector<std::string> out;
  for (const auto& group : groups_of(pipeline_of(job), seats_of(job.layout), rank))
    out.push_back(group.name);
  return out;
}

using names = std::vector<std::string>;

const std::string words = "embedding.word_embeddings.weight";
const std::string table = "embedding.position_embeddings.weight";
const parameter_spec positions{.name = "positions", .extents = {16, 32}};

/// A job whose layers have a parameter that is tied to `owner`. `head`: the head is tied, too.
training_job tied(const std::string& owner, const parameter_spec& use, bool head, int stages = 4) {
  auto job = job_of({"1f1b", stages, 1, 1}, head);
  job.training.own = {.name = "tied",
                      .feed_forward =
                          [=](module_builder& to, const feed_forward_spec&) {
                            auto x = use;
                            x.tied_to = owner;
                            to.add(std::move(x));
                            to.segment("nothing", [](tape&, pass&) {});
                          },
                      .tied_to = {owner}};
  return job;
}

std::map<std::string, tie_holders> ties_at(int rank, const training_job& job) {
  std::map<std::string, tie_holders> out;
  for (const auto& group : groups_of(pipeline_of(job), seats_of(job.layout), rank))
    if (!group.ties.empty())
      out.emplace(group.name, group.ties);
  return out;
}

void check_groups(const training_job& job) {
  const auto pipeline = pipeline_of(job);
  const auto all = seats_of(job.layout);
  std::map<std::string, std::vector<int>> members;
  std::map<std::string, std::set<int>> indices;
  for (int rank = 0; rank < all.size(); ++rank)
    for (const auto& group : groups_of(pipeline, all, rank)) {
      CHECK(members.emplace(group.name, group.members).first->second == group.members);
      CHECK(group.members.at(std::size_t(group.rank)) == rank);
      CHECK(indices[group.name].insert(group.rank).second);
    }
  for (const auto& [name, ranks] : members)
    CHECK(indices.at(name).size() == ranks.size());
}

}  // namespace

TEST_CASE("a rank joins a group along each axis that it shares, and one of its ties", "[job]") {
  CHECK(names_at(0, {"1f1b", 1, 1, 1}, true) == names{"data of pipeline rank 0.0"});
  CHECK(names_at(1, {"1f1b", 2, 2, 2}, false)
        == names{"tensor of stage 0.0", "data of pipeline rank 0.1"});
  CHECK(names_at(1, {"1f1b", 2, 2, 2}, true)
        == names{"tensor of stage 0.0", "data of pipeline rank 0.1", "ties of replica 0.1"});
  CHECK(names_at(1, {"1f1b", 4, 1, 1}, true) == names{"data of pipeline rank 1.0"});
  CHECK(names_at(0, {"dualpipe", 2, 1, 1}, false)
        == names{"data of chunk 0.0", "data of chunk 1.0"});
}

TEST_CASE("all members of a group give it one name, one order and their own index", "[job]") {
  const auto x = GENERATE(layout{"1f1b", 2, 2, 2},
                          layout{"zb-v", 2, 1, 2},
                          layout{"dualpipe", 2, 2, 2},
                          layout{"dualpipe", 4, 1, 1});
  const bool tied = GENERATE(false, true);
  CAPTURE(x.schedule, x.pipeline, x.tensor, x.replicas, tied);
  check_groups(job_of(x, tied));
}

TEST_CASE("VERIFY-4: passes are verified where replicas form groups with all experts", "[job]") {
  const auto refusal = [](double fraction, int tensor, int experts) {
    const auto dense = make_mesh(6 * tensor, tensor, 1, 1);
    std::vector<std::string> wrong;
    validate_verification(
        {.verify_fraction = fraction}, {dense, fold_experts(dense, experts, 1)}, wrong);
    return wrong.empty() ? "" : wrong.front();
  };
  CHECK(refusal(0.5, 1, 1).empty());
  CHECK(refusal(0.5, 1, 3).empty());
  CHECK(refusal(0.5, 2, 6).empty());
  CHECK(refusal(0, 2, 3).empty());
  CHECK_THAT(refusal(0.5, 2, 3),
             ContainsSubstring("3 ranks of `layout.expert` x `layout.expert_tensor` and 2 ranks")
                 && ContainsSubstring("leave `recovery.verify_fraction` out"));
}

TEST_CASE("a rank joins a group along each axis of experts, and one of their sums", "[job]") {
  const auto groups_at = [](int rank, int tensor, int expert, int expert_tensor) {
    auto job = job_of({"1f1b", 1, tensor, 4 / tensor}, false);
    job.layout.expert = expert;
    job.layout.expert_tensor = expert_tensor;
    job.training.own
        = {.name = "experts", .feed_forward = [](module_builder& to, const feed_forward_spec&) {
             to.add({.name = "matrices",
                     .extents = {8, 4, 4},
                     .stacked = true,
                     .placements = of_experts({{axis::expert, row_sharded()}})});
             to.segment("nothing", [](tape&, pass&) {});
           }};
    check_groups(job);
    std::map<std::string, std::vector<int>> out;
    for (auto& group : groups_of(pipeline_of(job), seats_of(job.layout), rank))
      out.emplace(group.name, group.members);
    return out;
  };
  using groups = std::map<std::string, std::vector<int>>;
  CHECK(groups_at(2, 2, 4, 1)
        == groups{{"tensor of stage 1.0", {2, 3}},
                  {"expert of stage 0.0.0", {0, 1, 2, 3}},
                  {"data of pipeline rank 0.0", {0, 2}},
                  {"expert data of pipeline rank 0.ep2", {2}}});
  CHECK(groups_at(3, 2, 2, 1)
        == groups{{"tensor of stage 1.0", {2, 3}},
                  {"expert of stage 1.0.0", {2, 3}},
                  {"data of pipeline rank 0.1", {1, 3}},
                  {"expert data of pipeline rank 0.ep1", {1, 3}}});
  CHECK(groups_at(2, 1, 2, 2)
        == groups{{"expert of stage 0.0", {0, 2}},
                  {"expert tensor of stage 2.0", {2, 3}},
                  {"data of pipeline rank 0.0", {0, 1, 2, 3}},
                  {"expert data of pipeline rank 0.ep1.etp0", {2}}});
}

TEST_CASE("with a loss over replicas a rank meets them in its passes, in a group apart", "[job]") {
  const auto replicas = GENERATE(1, 2);
  auto job = job_of({"1f1b", 2, 1, replicas}, false);
  auto& m = job.training.model.as<gpt_config>();
  m.linear_bias = false;
  m.experts = {.number = 4, .ffn = 24, .balance = {"global_aux_loss"}, .balance_weights = {0.1}};
  check_groups(job);
  const auto all = groups_of(pipeline_of(job), seats_of(job.layout), 1);
  // The second rank is of the next replica, if there is one.
  const std::string sums = fmt::format("data of pipeline rank {}.0", replicas == 2 ? 0 : 1);
  CHECK(all.front().name == sums);
  CHECK(all.back().of_losses == (replicas == 2));
  if (replicas == 2)
    CHECK(all.back().name == sums + ", in passes");
}

TEST_CASE(
    "the copies of a chunk sum experts in the order of ranks, and meet for losses over replicas",
    "[job]") {
  auto job = job_of({"dualpipe", 2, 1, 4}, false);
  auto& m = job.training.model.as<gpt_config>();
  m.linear_bias = false;
  m.experts = {.number = 4, .ffn = 24, .balance = {"global_aux_loss"}, .balance_weights = {0.1}};
  job.layout.expert = 2;
  check_groups(job);
  std::map<std::string, std::vector<int>> all;
  for (auto& group : groups_of(pipeline_of(job), seats_of(job.layout), 5))
    all.emplace(group.name, group.members);
  // Ranks 0 to 3 are the first stages of four replicas. The second copy has its first chunk on
  // ranks 4 to 7.
  CHECK(all
        == std::map<std::string, std::vector<int>>{
            {"expert of stage 0.1", {4, 5}},
            {"data of chunk 0.0", {0, 1, 2, 3, 4, 5, 6, 7}},
            {"data of chunk 1.0", {4, 5, 6, 7, 0, 1, 2, 3}},
            {"expert data of chunk 0.ep1", {1, 3, 5, 7}},
            {"expert data of chunk 1.ep1", {5, 7, 1, 3}},
            {"data of pipeline rank 1.0, in passes", {4, 5, 6, 7}},
            {"data of chunk 0.0, in passes", {0, 1, 2, 3, 4, 5, 6, 7}},
            {"data of chunk 1.0, in passes", {4, 5, 6, 7, 0, 1, 2, 3}}});
}

TEST_CASE("a loss over replicas of an own layer has the same rules", "[job]") {
  auto job = job_of({"1f1b", 1, 1, 2}, false);
  job.training.own = {
      .name = "own",
      .feed_forward = [](module_builder& to,
                         const feed_forward_spec&) { to.segment("nothing", [](tape&, pass&) {}); },
      .losses = {{.name = "own loss", .over_replicas = true}}};
  CHECK(validate_layout(job, {}).empty());
  job.recovery.verify_fraction = 0.5;
  const auto wrong = validate_layout(job, {});
  REQUIRE(wrong.size() == 1);
  CHECK_THAT(wrong.front(), ContainsSubstring("own loss counts the rows of all replicas"));
}

TEST_CASE("ties whose gradients cannot be added are refused before the run", "[job]") {
  const parameter_spec same{.name = "words",
                            .extents = {64, 32},
                            .valid_rows = 64,
                            .placements = {{axis::tensor, row_sharded()}}};
  const int stages = GENERATE(1, 4);
  CAPTURE(stages);
  CHECK_NOTHROW(pipeline_of(tied(words, same, false, stages)));
  const auto refused = [&](const char* what, auto change) {
    auto use = same;
    change(use);
    CHECK_THROWS_MATCHES(pipeline_of(tied(words, use, false, stages)),
                         input_error,
                         MessageMatches(ContainsSubstring("mlp.words' is tied to '" + words)
                                        && ContainsSubstring(std::string(what) + " differ")));
  };
  refused("extents", [](auto& x) { x.extents = {64, 16}; });
  refused("valid rows", [](auto& x) { x.valid_rows = 60; });
  refused("placements", [](auto& x) { x.placements = {{axis::tensor, column_sharded()}}; });
  refused("`frozen`", [](auto& x) { x.frozen = true; });
  refused("`keep_f32`", [](auto& x) { x.keep_f32 = true; });
}

TEST_CASE("ties on other pipeline ranks than the rest have groups of their own", "[job]") {
  // The head's tie is on the first and the last stage, that of the positions on all.
  const auto job = tied(table, positions, true);
  using ties = std::map<std::string, tie_holders>;
  const ties all = {{"ties of replica 0.0 on pipeline ranks 0, 1, 2, 3",
                     {{{table, copy_id()}, {0, 0, 0, 1, 1, 2, 2, 3, 3}}}},
                    {"ties of replica 0.0 on pipeline ranks 0, 3", {{{words, copy_id()}, {0, 1}}}}};
  CHECK(ties_at(0, job) == all);
  CHECK(ties_at(1, job) == ties{*all.begin()});
  CHECK(ties_at(3, job) == all);
  check_groups(job);
}

TEST_CASE("a tie with all uses on one pipeline rank joins no group", "[job]") {
  auto job = tied(table, positions, true, 2);
  job.layout.chunks = {{0, 9}, {9, 10}};  // the layers are on the first stage
  const std::map<std::string, tie_holders> of_words
      = {{"ties of replica 0.0", {{{words, copy_id()}, {0, 1}}}}};
  CHECK(ties_at(0, job) == of_words);
  CHECK(ties_at(1, job) == of_words);
}

TEST_CASE("each copy of the model adds its ties on its own pipeline ranks", "[job]") {
  auto job = tied(table, positions, true);
  job.layout.schedule.source = "dualpipe";
  job.layout.chunks = {{0, 3}, {3, 6}, {6, 9}, {9, 10}};
  const copy_id first = {}, second = copy_id(1);
  const std::vector<int> holders = {0, 0, 0, 1, 1, 1, 2, 2, 2};
  CHECK(ties_at(0, job)
        == std::map<std::string, tie_holders>{
            {"ties of replica 0.0 on pipeline ranks 0, 1, 2", {{{table, first}, holders}}},
            {"ties of replica 0.0 on pipeline ranks 0, 3",
             {{{words, first}, {0, 1}}, {{words, second}, {1, 0}}}}});
  CHECK(ties_at(2, job)
        == std::map<std::string, tie_holders>{
            {"ties of replica 0.0 on pipeline ranks 0, 1, 2", {{{table, first}, holders}}},
            {"ties of replica 0.0 on pipeline ranks 3, 2, 1", {{{table, second}, holders}}}});
  check_groups(job);
}
