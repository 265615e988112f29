"""Fixed addresses to go out by, for customers whose firewalls ask: a VPC, its NAT gateways, or nothing.

Off by default: each gateway costs 33 dollars a month, used or not, and every byte through it. Tables and
archive are reached by gateway endpoints, which are free; what else AWS is asked goes through the NAT, since
interface endpoints would cost seven dollars a month for each service and zone.
"""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.config import StageConfig


class Egress(Construct):
    """`vpc` and `group` for functions that reach out; both None where the stage has no fixed addresses."""

    def __init__(self, scope: Construct, id_: str, *, config: StageConfig) -> None:
        super().__init__(scope, id_)
        self.vpc: ec2.Vpc | None = None
        self.group: ec2.SecurityGroup | None = None
        if config.static_ips:
            addresses = [ec2.CfnEIP(self, f"Address{n + 1}") for n in range(config.static_ips)]
            self.vpc = _vpc(self, addresses)
            self.group = ec2.SecurityGroup(
                self, "Group", vpc=self.vpc, description="Functions that reach the endpoints of customers"
            )
            for n, address in enumerate(addresses):
                cdk.CfnOutput(self, f"Ip{n + 1}", value=address.ref).override_logical_id(f"StaticIp{n + 1}")


def _vpc(scope: Construct, addresses: list[ec2.CfnEIP]) -> ec2.Vpc:
    vpc = ec2.Vpc(
        scope,
        "Vpc",
        max_azs=max(2, len(addresses)),
        nat_gateways=len(addresses),
        nat_gateway_provider=ec2.NatProvider.gateway(
            eip_allocation_ids=[address.attr_allocation_id for address in addresses]
        ),
        subnet_configuration=[
            ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=28),
            ec2.SubnetConfiguration(name="Functions", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
        ],
        gateway_endpoints={
            "Tables": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.DYNAMODB),
            "Archive": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
        },
        restrict_default_security_group=False,
    )
    cdk.Validations.of(vpc).acknowledge(
        cdk.Acknowledgment(
            id="AwsSolutions-VPC7", reason="Each request is in deliver's own log; flow logs cost by the byte."
        )
    )
    return vpc
