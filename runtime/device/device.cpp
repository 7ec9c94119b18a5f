#include "runtime/device/device.hpp"

#include "kernels/backend/backend.hpp"
#include "kernels/backend/cuda_library.hpp"
#include "kernels/backend/plugin.hpp"

namespace troupe::runtime {

device_driver& open_devices() {
  static device_driver& driver = []() -> device_driver& {
    kernels::open_cuda();  // throws with the reason if the backend cannot run
    return *kernels::plugin::open("cuda").function<device_driver*()>("troupe_device_driver")();
  }();
  return driver;
}

void require_device(int number) {
  const int count = open_devices().count();
  if (number < 0 || number >= count)
    throw kernels::backend_missing("there is no device " + std::to_string(number)
                                   + ": this machine has " + std::to_string(count)
                                   + ", numbered from 0");
  if (const auto why = open_devices().obstacle(number); !why.empty())
    throw kernels::backend_missing(
        "device " + std::to_string(number) + " (" + open_devices().facts(number).name + ") " + why
        + ": choose others with `devices.numbers` (`troupe doctor` lists them), or set `backend` to cpu");
}

}  // namespace troupe::runtime
