#include "kernels/backend/backend.hpp"

#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using kernels::backend;

TEST_CASE("an operation runs on the requested backend", "[kernels][backend]") {
  sum_memory<float> on_reference{.n = 5}, on_cpu = on_reference;
  run(backend::reference, on_reference.add(), {});
  run(backend::cpu, on_cpu.add(), {});
  CHECK(on_reference.y[0] == on_reference.x[0][0] + on_reference.x[1][0]);
  CHECK(on_cpu.y == on_reference.y);

  sum_memory<double> in_double{.n = 5};
  run(backend::reference, in_double.add(), {});
  CHECK(in_double.y[4] == in_double.x[0][4] + in_double.x[1][4]);
}

TEST_CASE("BACKEND-1: every backend except the reference rejects double", "[kernels][backend]") {
  sum_memory<double> t{.n = 5};
  CHECK_THROWS_AS(run(backend::cpu, t.add(), {}), std::logic_error);
  CHECK_THROWS_AS(run(backend::cuda, t.add(), {}), std::logic_error);
  CHECK_THROWS_AS(scratch(backend::cpu, t.add(), 1), std::logic_error);
  CHECK(t.y == blank<double>(5));
}

TEST_CASE("BACKEND-2: an unknown backend number is rejected", "[kernels][backend]") {
  sum_memory<float> t{.n = 5};
  CHECK_THROWS_AS(run(backend{77}, t.add(), {}), std::logic_error);
  CHECK_THROWS_AS(scratch(backend{77}, t.add(), 1), std::logic_error);
}

TEST_CASE("without CUDA the error names the cause and a remedy", "[kernels][backend]") {
  sum_memory<float> t{.n = 5};
  CHECK_THROWS_AS(run(backend::cuda, t.add(), {}), kernels::backend_missing);
  CHECK_THROWS_AS(scratch(backend::cuda, t.add(), 1), kernels::backend_missing);
  CHECK_THROWS_WITH(run(backend::cuda, t.add(), {}),
                    ContainsSubstring("CUDA backend cannot run")
                        && ContainsSubstring("Choose the backend 'cpu'"));
}

TEST_CASE("only operations that declare scratch need it", "[kernels][backend]") {
  sum_memory<float> t{.n = 4097};
  CHECK(scratch(backend::reference, t.square_norm(), 1) == 0);
  CHECK(scratch(backend::cpu, t.square_norm(), 1) >= workspace_bytes(t.square_norm(), 1));
  CHECK(scratch(backend::cpu, t.add(), 1) == 0);
}

TEST_CASE("the cpu backend names its instruction set", "[kernels][backend]") {
  CHECK_FALSE(kernels::instruction_set().empty());
}
