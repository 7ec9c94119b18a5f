// The exchange of rows between devices by NCCL, on emulated devices.

#include "runtime/collective/nccl_group.hpp"
#include "tests/support/nccl_ranks.hpp"
#include "tests/support/routed_experts.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;

TEST_CASE("experts on several devices have the bits of one device with all experts", "[device]") {
  const expert_grid of{.expert = 2, .tensor = GENERATE(1, 2)};
  const auto which = GENERATE(routed_scene::mixed, routed_scene::empty_rank, routed_scene::empty);
  const bool gathers = GENERATE(false, true);
  CAPTURE(of.tensor, int(which), gathers);
  const auto rows = rows_in(which);
  nccl_groups groups({}, 1, collective_mode::ordered);
  std::vector<routed_result> got(std::size_t(of.size())), alone(got.size());
  on_threads(of.size(), [&](int r) {
    stream on(kernels::backend::cuda, 1, {}, r);
    const auto& mine = rows[std::size_t(r)];
    alone[std::size_t(r)] = routed_pass<float>(on, mine, {}, 0, {}, false);
    const int e = r / of.tensor, t = r % of.tensor;
    const auto expert = make_nccl_communicator(
        groups, {"experts " + std::to_string(t), axis::expert, e, of.expert, r});
    std::unique_ptr<nccl_communicator> tensor;
    axis_map<communicator*> along{{axis::expert, expert.get()}};
    if (of.tensor > 1) {
      tensor = make_nccl_communicator(
          groups, {"tensor " + std::to_string(e), axis::expert_tensor, t, of.tensor, r});
      along[axis::expert_tensor] = tensor.get();
    }
    got[std::size_t(r)] = routed_pass<float>(on, mine, of, r, along, gathers);
    on.finish();
  });
  for (std::size_t r = 0; r < got.size(); ++r) {
    CAPTURE(r);
    if (of.tensor == 1) {
      CHECK(got[r].y == alone[r].y);
      CHECK(got[r].dx == alone[r].dx);
      CHECK(got[r].dweights == alone[r].dweights);
    } else {  // each rank adds half of the features, so sums have another order
      CHECK(relative_error(got[r].y, alone[r].y) < 1e-5);
      CHECK(relative_error(got[r].dx, alone[r].dx) < 1e-5);
      CHECK(relative_error(got[r].dweights, alone[r].dweights) < 1e-5);
    }
  }
}
