// A worker without tensor work, for simulated clusters. Its reports, hand-offs and states have the
// names and the numbers of parts of a real worker's; each array has one element a parameter.

#pragma once

#include "actors/host/registries.hpp"
#include "runtime/trainer/worker.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace troupe::actors::simulation {

/// The reports and parts of a rank. Ranks with the same chunk and the same tensor rank share it.
struct idle_rank {
  runtime::chunk_id chunk = {};
  runtime::chunk_flow flow = {};
  std::vector<runtime::loss_part> losses = {};
  runtime::square_norms norms = {};
  runtime::rank_estate::chunk_part state = {};
  runtime::state_digests digests = {};
};

/// The ranks of a job, by chunk and tensor rank; made on first use. Any thread.
class idle_ranks {
 public:
  /// The worker hosts one chunk.
  std::shared_ptr<const idle_rank> of(const runtime::worker_settings& settings,
                                      runtime::axis_rank tensor);

 private:
  std::mutex mutex_;
  std::map<std::pair<runtime::chunk_id, int>, std::shared_ptr<const idle_rank>> all_;
};

class idle_worker final : public runtime::worker {
 public:
  idle_worker(std::shared_ptr<const idle_rank> of,
              runtime::worker_settings settings,
              runtime::stream& by);

  runtime::bundle forward(const runtime::pass_key& key, const runtime::bundle& in) override;
  runtime::bundle input_gradients(const runtime::pass_key& key,
                                  const runtime::bundle& in,
                                  int block) override;
  using runtime::worker::weight_gradients;
  void weight_gradients(const runtime::pass_key& key, int block) override;
  void losses(runtime::reads& by, std::vector<runtime::loss_part>& to) const override;
  void norms(runtime::reads& by, runtime::square_norms& to) const override;
  void norms_and_digests(runtime::reads& by,
                         runtime::square_norms& norms,
                         runtime::by_view<runtime::digest>& to) const override;
  void digests(runtime::reads& by, runtime::state_digests& to) const override;

 private:
  std::shared_ptr<const idle_rank> of_;
};

/// A rank's place in a group that exchanges nothing: each operation breaks IDLE-1.
std::unique_ptr<runtime::communicator> idle_communicator(const group_place& x);

}  // namespace troupe::actors::simulation
