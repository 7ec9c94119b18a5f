// Updates of every optimizer, compared with PyTorch and the papers' formulas in double precision.

#include "runtime/collective/local/local_group.hpp"
#include "runtime/file/file.hpp"
#include "runtime/optim/muon.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/tensor.hpp"
#include "tests/support/muon_names.hpp"
#include "tests/support/numbers.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

using namespace troupe::runtime;
using nlohmann::json;
namespace kernels = troupe::kernels;

namespace {

optimizer_settings settings_of(const json& x, double weight_decay) {
  optimizer_settings out{.weight_decay = weight_decay};
  out.kind = optimizer_kind_from(x["kind"].get<std::string>()).value();
  const auto& s = x["settings"];
  out.sgd_momentum = s.value("momentum", out.sgd_momentum);
  auto& m = out.muon;
  m.momentum = s.value("momentum", m.momentum);
  m.nesterov = s.value("nesterov", false);
  m.split_qkv = s.value("split_qkv", true);
  m.scale = troupe::tests::muon_scale_from(s.value("scale", "spectral"));
  m.extra_scale = s.value("extra", 1.0);
  m.coefficients = troupe::tests::muon_coefficients_from(s.value("coefficients", "quintic"));
  m.steps = s.value("steps", 5);
  m.others = optimizer_kind_from(s.value("others", "adam")).value();
  return out;
}

std::vector<unit_spec> units_of(const json& golden) {
  unit_spec out{.name = "all"};
  for (const auto& [name, extents] : golden["shapes"].items()) {
    parameter_spec p{.name = name, .initial = distribution::normal(1)};
    p.extents = extents.size() == 1
                    ? shape{extents[0].get<std::int64_t>()}
                    : shape{extents[0].get<std::int64_t>(), extents[1].get<std::int64_t>()};
    p.decays = extents.size() == 2;
    p.embedding_or_output = name == "words";
    if (name == "qkv")
      p.row_kinds = golden["row_kinds"].get<std::vector<std::int64_t>>();
    out.parameters.push_back(p);
  }
  return {out};
}

std::vector<float> floats(const json& from) {
  return from.get<std::vector<float>>();
}

}  // namespace

TEST_CASE("each optimizer updates as PyTorch and the papers' formulas", "[optim]") {
  const auto golden
      = json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/optim/updates.json"));
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  CAPTURE(int(where));
  REQUIRE(golden["cases"].size() == 9);
  for (const auto& x : golden["cases"]) {
    CAPTURE(x["kind"].get<std::string>(), x["settings"].dump());
    resident_store store(units_of(golden), 1, {});
    optimizer_state optimizer(
        store, settings_of(x, golden["weight_decay"]), whole_ranges(store), {});
    stream stream(where, 1, {});
    for (const auto& e : store.entries()) {
      const auto start = floats(golden["start"][e.spec.name]);
      store.set(e, 0, start);
      optimizer.set_weights(e.index, 0, start);
    }
    std::uint64_t step = 0;
    for (const auto& gradients : golden["gradients"]) {
      for (const auto& e : store.entries()) {
        const auto from = floats(gradients[e.spec.name]);
        std::copy(
            from.begin(), from.end(), static_cast<parameter_store&>(store).gradients(0, e.index));
      }
      optimizer.update(stream,
                       {.step = ++step,
                        .learning_rate = golden["rate"],
                        .gradient_scale = golden["gradient_scale"],
                        .decoupled_learning_rate = golden["words_rate"].get<double>()});
    }
    for (const auto& part : optimizer.parts()) {
      const auto& name = store.entries()[std::size_t(part.range.entry)].spec.name;
      CAPTURE(name);
      const auto found = optimizer.weights(part);
      // Numbers near 1, rounded to float32 in each step, also those of Newton-Schulz.
      CHECK(troupe::tests::relative_error(std::vector(found.begin(), found.end()),
                                          x["values"][name].get<std::vector<double>>())
            < 2e-6);
    }
  }
}

TEST_CASE("digests that an update computes equal those of its result, for every rule", "[optim]") {
  const auto golden
      = json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/optim/updates.json"));
  for (const auto& x : golden["cases"]) {
    CAPTURE(x["kind"].get<std::string>(), x["settings"].dump());
    resident_store store(units_of(golden), 1, {});
    optimizer_state optimizer(
        store, settings_of(x, golden["weight_decay"]), whole_ranges(store), {}, 32);
    stream stream(kernels::backend::cpu, 1, {});
    for (const auto& e : store.entries()) {
      const auto from = floats(golden["start"][e.spec.name]);
      store.set(e, 0, from);
      std::copy(
          from.begin(), from.end(), static_cast<parameter_store&>(store).gradients(0, e.index));
    }
    optimizer.update(stream, {.step = 1, .learning_rate = 0.1});
    const auto taken = optimizer.digests(stream);
    for (const auto& part : optimizer.parts())
      optimizer.weights(part);  // mutable access drops the digest
    CHECK(optimizer.digests(stream) == taken);
  }
}

TEST_CASE("padding of a matrix that tensor ranks put together is zero, whatever its memory holds",
          "[optim]") {
  constexpr std::int64_t rows = 10, columns = 4, own = rows / 2 * columns;
  const muon_settings settings{.tensor_mode = muon_tensor_mode::duplicated};
  const parameter_spec whole{.name = "a", .extents = {rows, columns}, .valid_rows = rows - 2};
  auto given = troupe::tests::normal<float>(rows * columns, 1);
  std::fill(given.end() - 2 * columns, given.end(), 0.0F);
  auto expected = given;
  stream one(kernels::backend::cpu, 1, {});
  orthogonalize(one, settings, whole, {}, nullptr, expected.data());

  auto sharded = whole;
  sharded.placements = {{axis::tensor, row_sharded()}};
  auto seen = given;
  const auto group = std::make_shared<local_group>(axis::tensor, 2, cancel_token());
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      stream by(kernels::backend::cpu, 1, {});
      std::vector<tensor> used;
      for (int i = 0; i < 16; ++i) {
        auto& x = used.emplace_back(tensor::empty<float>(by, {rows, columns}));
        std::fill_n(x.data<float>(), x.size(), 3.0F);
      }
      used.clear();
      local_communicator tensor_ranks(group, r);
      axis_ranks of;
      of[axis::tensor] = {r, 2};
      orthogonalize(by, settings, sharded, of, &tensor_ranks, seen.data() + r * own);
    });
  for (auto& thread : threads)
    thread.join();
  for (std::size_t i = 0; i < std::size_t((rows - 2) * columns); ++i)
    CHECK(seen[i] == expected[i]);
}

TEST_CASE("a matrix that is not whole groups of rows is not orthogonalized in parts", "[optim]") {
  std::vector<float> x(40, 1.0F);
  stream stream(kernels::backend::cpu, 1, {});
  CHECK_THROWS_WITH(orthogonalize(stream,
                                  {},
                                  {.name = "a", .extents = {10, 4}, .row_kinds = {2, 2, 2}},
                                  {},
                                  nullptr,
                                  x.data()),
                    Catch::Matchers::ContainsSubstring("MUON-1"));
}
