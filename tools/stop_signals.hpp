// The signals by which people and launchers stop a run. Main thread only.
#pragma once

namespace stagecraft::tools {

/// From now on the first of SIGINT, SIGTERM, SIGUSR1 and SIGHUP is noted; the second leaves at once, with exit code
/// 130. A signal that was ignored before stays so: that is what `nohup` asks for.
void catch_stop_signals();
bool stop_is_asked();

}  // namespace stagecraft::tools
