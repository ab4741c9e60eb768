// Files that tell how machines are joined, as other programs print them.
#pragma once

namespace ddl::test::topologies {

// Eight GPUs behind four PCIe switches on two sockets, as a server of 2017 showed them (kubernetes/kubernetes issue
// 53497, columns of the network card included).
constexpr const char* kPcieServer =
    R"(        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    mlx4_0  CPU Affinity
GPU0     X      PIX     PHB     PHB     SYS     SYS     SYS     SYS     PHB     0-9,20-29
GPU1    PIX      X      PHB     PHB     SYS     SYS     SYS     SYS     PHB     0-9,20-29
GPU2    PHB     PHB      X      PIX     SYS     SYS     SYS     SYS     PHB     0-9,20-29
GPU3    PHB     PHB     PIX      X      SYS     SYS     SYS     SYS     PHB     0-9,20-29
GPU4    SYS     SYS     SYS     SYS      X      PIX     PHB     PHB     SYS     10-19,30-39
GPU5    SYS     SYS     SYS     SYS     PIX      X      PHB     PHB     SYS     10-19,30-39
GPU6    SYS     SYS     SYS     SYS     PHB     PHB      X      PIX     SYS     10-19,30-39
GPU7    SYS     SYS     SYS     SYS     PHB     PHB     PIX      X      SYS     10-19,30-39
mlx4_0  PHB     PHB     PHB     PHB     SYS     SYS     SYS     SYS      X

Legend:
  X   = Self
  PIX = Connection traversing a single PCIe switch
)";

// Two sockets; a PCIe switch with two GPUs on each, and a GPU on the second one's root port. Bridges with one way
// down are part of it.
constexpr const char* kHwloc = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0">
    <object type="Package" os_index="0">
      <object type="NUMANode" os_index="0"/>
      <object type="Core" os_index="0"/><object type="Core" os_index="1"/>
      <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-0f]">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:00:01.0" pci_link_speed="15.753846" bridge_pci="0000:[01-05]">
          <object type="Bridge" bridge_type="1-1" pci_busid="0000:02:01.0" pci_link_speed="15.753846" bridge_pci="0000:[03-03]">
            <object type="PCIDev" pci_busid="0000:03:00.0" pci_type="0302 [10de:15f8] [10de:118f] a1" pci_link_speed="15.753846">
              <object type="OSDev" name="cuda0" osdev_type="5"/><object type="OSDev" name="nvml0" osdev_type="1"/>
            </object>
          </object>
          <object type="Bridge" bridge_type="1-1" pci_busid="0000:02:02.0" pci_link_speed="7.876923" bridge_pci="0000:[04-04]">
            <object type="PCIDev" pci_busid="0000:04:00.0" pci_type="0302 [10de:15f8] [10de:118f] a1" pci_link_speed="15.753846">
              <object type="OSDev" name="cuda1" osdev_type="5"/>
            </object>
          </object>
        </object>
        <object type="PCIDev" pci_busid="0000:06:00.0" pci_type="0300 [1a03:2000] [1a03:2000] 30" pci_link_speed="0.000000"/>
      </object>
    </object>
    <object type="Package" os_index="1">
      <object type="Core" os_index="2"/><object type="Core" os_index="3"/>
      <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[80-8f]">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:80:01.0" pci_link_speed="15.753846" bridge_pci="0000:[81-81]">
          <object type="PCIDev" pci_busid="0000:81:00.0" pci_type="0302 [10de:15f8] [10de:118f] a1" pci_link_speed="15.753846">
            <object type="OSDev" name="cuda2" osdev_type="5"/>
          </object>
        </object>
      </object>
    </object>
  </object>
</topology>
)";

// The example of topology.conf(5).
constexpr const char* kSlurmTree =
    "# comment\nSwitchName=s0 Nodes=tux[0-3]\nSwitchName=s1 Nodes=tux[4-7] # more\nSwitchName=s2 Nodes=tux[8-11]\n"
    "switchname=s3 switches=s[0-2] LinkSpeed=100\n";

}  // namespace ddl::test::topologies
