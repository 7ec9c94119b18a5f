// A transport with injected faults: a lane or a keeper fails, hangs or is slow when it redeems, or
// a keeper receives a state with a wrong bit.

#pragma once

#include "actors/faults/faulty_network.hpp"
#include "actors/faults/faulty_worker.hpp"
#include "runtime/transport/transport.hpp"

#include <memory>
#include <span>
#include <vector>

namespace troupe::actors {

/// Any thread.
class faulty_transport final : public runtime::transport {
 public:
  faulty_transport(std::shared_ptr<runtime::transport> inner,
                   std::shared_ptr<const fault_injector> faults,
                   std::shared_ptr<const working_lanes> lanes,
                   std::shared_ptr<const faulty_network> network);

  runtime::ticket deposit(runtime::tensor x,
                          runtime::generation_id generation,
                          std::shared_ptr<const void> until_taken) override;
  std::vector<runtime::tensor> redeem_all(std::span<const runtime::ticket> tickets,
                                          const runtime::redeemer& by) override;
  void take_back(std::span<const runtime::ticket> tickets) override;
  void end_generation(runtime::generation_id last) override;
  std::size_t leased() const override;
  const runtime::transport_counters& counters() const override;

 private:
  std::shared_ptr<runtime::transport> inner_;
  std::shared_ptr<const fault_injector> faults_;
  std::shared_ptr<const working_lanes> lanes_;
  std::shared_ptr<const faulty_network> network_;
};

}  // namespace troupe::actors
