// Attention within documents: documents in one row give the results of separate ones.

#include "tests/support/documents.hpp"

#include "tests/support/numbers.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <cmath>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace kernels = troupe::kernels;

namespace {

const std::vector<std::int32_t> starts_of_documents = {0, 2, 6, 7, 12};  // two rows of 6 tokens

/// Restarts position ids at each document.
void begin_positions_again(bundle& in) {
  auto positions = in.at("positions");
  for (std::size_t d = 0; d + 1 < starts_of_documents.size(); ++d)
    for (auto i = starts_of_documents[d]; i < starts_of_documents[d + 1]; ++i)
      positions.data<std::int32_t>()[i] = i - starts_of_documents[d];
}

/// Document d alone: one row of its tokens.
bundle alone(stream& stream, const bundle& from, std::size_t d) {
  const auto first = starts_of_documents[d], n = starts_of_documents[d + 1] - first;
  bundle out;
  const auto part = [&]<class T>(const char* name, T) {
    auto x = tensor::empty<T>(stream, {1, n});
    std::copy_n(from.at(name).elements<T>().begin() + first, n, x.template data<T>());
    out.add(name, x);
  };
  part("tokens", std::int32_t());
  part("labels", std::int32_t());
  part("positions", std::int32_t());
  part("mask", float());
  auto samples = tensor::empty<std::uint64_t>(stream, {1});
  samples.data<std::uint64_t>()[0] = d;
  out.add("samples", samples);
  return out;
}

}  // namespace

TEST_CASE("documents in one row have the loss and gradients of separate documents", "[model]") {
  const auto [name, config] = GENERATE(from_range(tiny_gpts(2)));
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const int parts = GENERATE(1, 2);
  CAPTURE(name, int(where), parts);
  auto settings = config;
  settings.hidden_dropout = settings.attention_dropout = 0;
  stream stream(where, 1, {});
  stages packed(settings, parts, stream), apart(settings, 1, stream), joined(settings, 1, stream);
  auto in = tiny_batch(stream, settings, 2, 3);
  begin_positions_again(in);
  double total = 0;
  for (std::size_t d = 0; d + 1 < starts_of_documents.size(); ++d) {
    const auto n = starts_of_documents[d + 1] - starts_of_documents[d];
    total += apart.forward_backward(int(d), alone(stream, in, d), {.loss_scale = n / 12.0}).total;
  }
  const auto across = joined.forward_backward(0, in).total;
  add_documents(in, starts_of_documents, {0, 0, 1, 1});
  const auto found = packed.forward_backward(0, in).total;
  // Sums of 12 float32 losses near 4; products can be summed in another order: 1e-5.
  CHECK(std::abs(found - total) < 1e-5 * total);
  CHECK(std::abs(across - total) > 1e-3 * total);
  const auto expected = apart.gradients();
  for (const auto& [parameter, g] : packed.gradients()) {
    CAPTURE(parameter);
    CHECK(relative_error(g, expected.at(parameter)) < 1e-4);
  }
}

TEST_CASE("a document that fills a row equals the row", "[model]") {
  const auto where = GENERATE(kernels::backend::reference, kernels::backend::cpu);
  const auto config = tiny_gpt(2);
  stream stream(where, 1, {});
  stages one(config, 1, stream), other(config, 1, stream);
  auto in = tiny_batch(stream, config, 2, 3);
  const auto expected = one.forward_backward(0, in, {.seed = 1, .step = 2}).total;
  add_documents(in,
                {0, 6, 12},
                {in.at("samples").elements<std::uint64_t>()[0],
                 in.at("samples").elements<std::uint64_t>()[1]});
  CHECK(other.forward_backward(0, in, {.seed = 1, .step = 2}).total == expected);
  CHECK(other.gradients() == one.gradients());
}
