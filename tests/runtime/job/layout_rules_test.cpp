// Rules for layouts of models with experts, which a family of this test has.

#include "runtime/job/layout_rules.hpp"

#include "tests/support/fixed_family.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

struct mixture_settings {
  std::int64_t layers = 2, experts = 8, ffn = 12;

  friend bool operator==(const mixture_settings&, const mixture_settings&) = default;
  static constexpr auto fields() {
    using x = mixture_settings;
    return std::tuple(row("layers", &x::layers), row("experts", &x::experts), row("ffn", &x::ffn));
  }
};

const model_family& family_of(const mixture_settings& settings);

/// Only its rules know of experts; its models are small GPTs.
class mixture_family final : public tests::fixed_family {
 public:
  std::string_view name() const override { return "mixture"; }
  model_description defaults() const override { return mixture_settings(); }
  std::vector<shared_size> shared_by_expert_ranks(const model_description& model) const override {
    const auto& x = model.as<mixture_settings>();
    return {{"`model.experts`", x.experts, 0, axis::expert},
            {"`model.ffn`", x.ffn, 0, axis::expert_tensor}};
  }

 protected:
  model_description gpt_of(const model_description& model) const override {
    return gpt_family().smallest(int(model.as<mixture_settings>().layers));
  }
};

const model_family& family_of(const mixture_settings& /*settings*/) {
  static const mixture_family only;
  return only;
}

/// Eight workers.
training_job job_of(const model_description& model, int tensor = 1, int pipeline = 1) {
  training_job x;
  x.training.model = model;
  const int replicas = 8 / tensor / pipeline;
  x.training.batch = {.micro = 2, .global = 16 * replicas, .data_parallel = replicas};
  x.layout = {.world = 8, .tensor = tensor, .pipeline = pipeline};
  x.layout.sequence_parallel = tensor > 1;
  return x;
}

training_job mixture(int tensor = 1, int pipeline = 1) {
  return job_of(mixture_settings(), tensor, pipeline);
}

/// The only broken rule; empty: none.
std::string broken(const training_job& job) {
  const auto all = validate_layout(job, {});
  CHECK(all.size() <= 1);
  return all.empty() ? "" : all.front();
}

struct first_ready final : behaviour {
  std::optional<action> next(const stage_view& now) override { return now.ready.front(); }
};

training_job decided_at_run_time(int tensor, int expert, int expert_tensor) {
  auto job = mixture(tensor, 2);
  job.layout.expert = expert;
  job.layout.expert_tensor = expert_tensor;
  job.layout.schedule.own = behaviour_factory{
      .name = "first", .make = [](int, int, int, int) { return std::make_unique<first_ready>(); }};
  return job;
}

}  // namespace

TEST_CASE("a model without experts refuses axes of experts", "[job]") {
  auto job = job_of(gpt_family().smallest(2), 2);
  CHECK(broken(job).empty());
  job.layout.expert_tensor = 2;
  CHECK(broken(job).empty());
  job.layout.expert_tensor = 1;
  CHECK_THAT(broken(job),
             ContainsSubstring("`layout.expert_tensor` 1 shares experts")
                 && ContainsSubstring("nearest valid: `layout.expert_tensor` 2"));
  job.layout.expert_tensor = 0;
  job.layout.expert = 3;
  CHECK_THAT(broken(job),
             ContainsSubstring("no mixture-of-experts layers; nearest valid: `layout.expert` 1"));
}

TEST_CASE("experts are shared over ranks within and between replicas", "[job]") {
  for (const int tensor : {1, 2, 4})
    for (const int expert : {1, 2, 4, 8})
      for (const int expert_tensor : {0, 1, 2, 4}) {
        CAPTURE(tensor, expert, expert_tensor);
        auto job = mixture(tensor);
        job.layout.expert = expert;
        job.layout.expert_tensor = expert_tensor;
        job.recovery.verify_fraction = 0.5;
        CHECK(broken(job).empty() == (expert * job.layout.expert_tensor_ranks() <= 8));
      }
}

TEST_CASE("each impossible layout of experts has an error text, with the nearest valid value",
          "[job]") {
  const auto tells = [](const training_job& job, const char* text) {
    CAPTURE(text);
    CHECK_THAT(broken(job), ContainsSubstring(text));
  };
  auto job = mixture();
  job.layout.expert = 0;
  tells(job, "`layout.expert` is 0; give at least 1");
  job = mixture();
  job.layout.expert_tensor = -1;
  tells(job, "`layout.expert_tensor` is -1; give at least 1");
  job = mixture();
  job.layout.expert = 16;
  job.training.model = mixture_settings{.experts = 16};
  tells(job, "not a multiple of expert 16 x expert tensor 1 x pipeline 1 = 16");
  job = mixture();
  job.layout.expert = 4;
  job.training.model = mixture_settings{.experts = 6};
  tells(job,
        "`model.experts` 6 is not a multiple of `layout.expert` 4, and every worker needs an equal "
        "share; nearest valid: 8 here, or `layout.expert` 2");
  job = mixture();
  job.layout.expert_tensor = 8;
  tells(job,
        "`model.ffn` 12 is not a multiple of `layout.expert_tensor` 8, and every worker needs an "
        "equal share; nearest valid: 16 here, or `layout.expert_tensor` 4");
  job = mixture(2);
  job.layout.sequence_parallel = false;
  tells(job, "each of `layout.tensor` 2 ranks sends its own rows");
  job = mixture();
  job.layout.expert = 2;
  job.layout.order = "tp-cp-dp-ep-pp";
  tells(job, "has ep after dp, but the order of sums over `layout.expert` 2 ranks");
  job.layout.expert = 1;
  CHECK(broken(job).empty());
  job = mixture(1, 2);
  job.layout.expert = 2;
  job.layout.order = "tp-cp-ep-pp-dp";
  tells(job, "put pp last");
}

TEST_CASE("copies of the model share experts as replicas do", "[job]") {
  auto job = mixture(1, 2);
  job.layout.schedule.source = "dualpipe";
  for (const int expert : {1, 2, 4})
    for (const int expert_tensor : {1, 2}) {
      job.layout.expert = expert;
      job.layout.expert_tensor = expert_tensor;
      CAPTURE(expert, expert_tensor);
      CHECK(broken(job).empty() == (expert * expert_tensor <= 4));
    }
}

TEST_CASE("replicas that decide at run time exchange no rows of experts", "[job]") {
  CHECK(broken(decided_at_run_time(1, 1, 1)).empty());
  CHECK(broken(decided_at_run_time(2, 2, 1)).empty());
  CHECK_THAT(broken(decided_at_run_time(2, 4, 1)),
             ContainsSubstring("`layout.expert` 4 x `layout.expert_tensor` 1 ranks")
                 && ContainsSubstring("nearest valid: `layout.expert` 2 with "
                                      "`layout.expert_tensor` 1"));
  auto job = decided_at_run_time(4, 6, 1);  // 4 ranks cannot share 6 experts
  job.training.model = mixture_settings{.experts = 6};
  job.layout.world = 24;
  job.training.batch = {.micro = 2, .global = 48, .data_parallel = 3};
  CHECK_THAT(broken(job),
             ContainsSubstring("nearest valid: `layout.expert` 2 with `layout.expert_tensor` 1"));
}

TEST_CASE("processes add a limited number of gradients at once", "[job]") {
  auto job = mixture();
  job.layout.expert = 2;
  job.layout.replicas_per_worker = 100;
  job.training.batch = {.micro = 2, .global = 1600, .data_parallel = 800};
  CHECK(broken(job).empty());
  job.layout.processes = 2;
  CHECK_THAT(broken(job),
             ContainsSubstring("each worker has 200 gradients of its experts")
                 && ContainsSubstring("nearest valid: `layout.expert_sums` together"));
  job.layout.expert_sums = source_sums::together;
  CHECK(broken(job).empty());
}

TEST_CASE("several processes with devices neither measure products nor let NCCL choose an order",
          "[job]") {
  auto job = mixture();
  job.backend = kernels::backend::cuda;
  job.devices.exchange = collectives::nccl_fast;
  CHECK(broken(job).empty());
  job.layout.processes = 2;
  job.devices.measure_products = false;
  CHECK_THAT(broken(job), ContainsSubstring("give `devices.exchange` nccl"));
  job.devices.exchange = collectives::nccl;
  CHECK(broken(job).empty());
  job.devices.measure_products = true;
  CHECK_THAT(broken(job), ContainsSubstring("give `devices.product_choices` none"));
}

TEST_CASE("VERIFY-4: a group of experts and a replica that overlap refuse verification", "[job]") {
  auto job = mixture(2);
  job.layout.world = 6;
  job.training.batch = {.micro = 2, .global = 24, .data_parallel = 3};
  job.training.model = mixture_settings{.experts = 6};
  job.layout.expert = 3;
  job.layout.expert_tensor = 1;
  CHECK(broken(job).empty());
  job.recovery.verify_fraction = 0.5;
  CHECK_THAT(broken(job), ContainsSubstring("nearest valid: `layout.expert` 2, or leave"));
}
